import loamdb from './index.js'

export const { Loam, ClassicLevel, Cache } = loamdb
export default loamdb

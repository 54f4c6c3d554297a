import loamdb from './index.js'

export const { Loam, ClassicLevel, Cache, prefixFilter } = loamdb
export default loamdb

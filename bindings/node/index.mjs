import loamdb from './index.js'

export const { Loam, ClassicLevel, Keyspace, Cache, prefixFilter } = loamdb
export default loamdb

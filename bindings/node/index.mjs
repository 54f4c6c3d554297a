import loamdb from './index.js'

export const { Loam, ClassicLevel, Keyspace, Cache, Backups, prefixFilter } = loamdb
export default loamdb

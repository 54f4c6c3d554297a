import loamdb from './index.js'

export const { Loam, ClassicLevel, Keyspace, Cache, Backups, Resources, prefixFilter } = loamdb
export default loamdb

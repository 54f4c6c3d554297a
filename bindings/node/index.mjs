import loamdb from './index.js'

export const { Loam, ClassicLevel, Keyspace, Cache, Backups, Resources, verifyDump, prefixFilter } = loamdb
export default loamdb

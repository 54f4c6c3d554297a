import loamdb from './index.js'

export const { Loam, ClassicLevel, Keyspace, Cache, Backups, Resources, TableWriter, verifyDump, prefixFilter } = loamdb
export default loamdb

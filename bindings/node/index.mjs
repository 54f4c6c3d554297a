import loamdb from './index.js'

export const { Loam } = loamdb

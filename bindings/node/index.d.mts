import * as loamdb from './index.js'

export * from './index.js'
export default loamdb

'use strict'

// Makes what a user installs, in dist/ of the repository: one tarball with the
// binary of this platform inside, or with --publish the package and the
// platform's own package: npm then installs the one that fits, as the package
// depends optionally on those of all platforms. LOAM_PLATFORM is another platform
// whose binary is built, such as darwin-arm64.

const { execFileSync } = require('child_process')
const fs = require('fs')
const os = require('os')
const path = require('path')

const root = path.join(__dirname, '..')
const platform = process.env.LOAM_PLATFORM || `${process.platform}-${process.arch}`
const manifest = require('../package.json')
const args = process.argv.slice(2)
const dist = path.resolve(args.find((arg) => !arg.startsWith('--')) ??
  path.join(root, '..', '..', 'dist'))
const binaries = path.join(root, 'npm', platform)
const licences = ['LICENSE', 'THIRD-PARTY.txt']

function copy (from, to, names) {
  for (const name of names) {
    fs.mkdirSync(path.dirname(path.join(to, name)), { recursive: true })
    fs.copyFileSync(path.join(from, name), path.join(to, name))
  }
}

function pack (stage) {
  const [name, directory] = [JSON.parse(fs.readFileSync(path.join(stage, 'package.json'))).name,
    dist]
  const result = execFileSync('npm', ['pack', '--json', '--pack-destination', directory],
    { cwd: stage, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  const listed = JSON.parse(result)
  const { filename } = Array.isArray(listed) ? listed[0] : listed[name]
  return path.join(directory, filename)
}

// The addon, the engine and the command.
function files () {
  return JSON.parse(fs.readFileSync(path.join(binaries, 'package.json'))).files
}

function platformPackages () {
  const packages = fs.readdirSync(path.join(root, 'npm')).map(
    (name) => require(path.join(root, 'npm', name, 'package.json')))
  return Object.fromEntries(packages.map(({ name, version }) => [name, version]))
}

function stagePackage (stage, withBinaries) {
  copy(root, stage, [...manifest.files, 'README.md'])
  copy(path.join(root, '..', '..'), stage, licences)
  const published = { ...manifest, scripts: undefined, devDependencies: undefined }
  published.files = [...manifest.files, ...licences]
  if (withBinaries) {
    published.files.push(`npm/${platform}/*`)
    published.os = [process.platform]
    published.cpu = [process.arch]
    copy(binaries, path.join(stage, 'npm', platform), files())
  } else {
    published.optionalDependencies = platformPackages()
  }
  fs.writeFileSync(path.join(stage, 'package.json'), JSON.stringify(published, null, 2) + '\n')
}

function stagePlatform (stage) {
  copy(binaries, stage, files())
  copy(path.join(root, '..', '..'), stage, licences)
  const published = JSON.parse(fs.readFileSync(path.join(binaries, 'package.json')))
  published.files.push(...licences)
  fs.writeFileSync(path.join(stage, 'package.json'), JSON.stringify(published, null, 2) + '\n')
}

function main () {
  if (!fs.existsSync(path.join(binaries, 'loamdb.node'))) {
    console.error(`pack: there is no binary for ${platform} yet: run node scripts/build.js first`)
    process.exitCode = 1
    return
  }
  fs.mkdirSync(dist, { recursive: true })
  const stages = args.includes('--publish')
    ? [(stage) => stagePackage(stage, false), stagePlatform]
    : [(stage) => stagePackage(stage, true)]
  for (const fill of stages) {
    const stage = fs.mkdtempSync(path.join(os.tmpdir(), 'loamdb-pack-'))
    try {
      fill(stage)
      console.log(pack(stage))
    } finally {
      fs.rmSync(stage, { recursive: true, force: true })
    }
  }
}

main()

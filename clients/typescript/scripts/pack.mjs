// node scripts/pack.mjs FOLDER writes the tarball of the built package to FOLDER, with the version
// of the service. The same commit gives the same bytes.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { VERSION } from '../dist/generated/version.js';

const folder = resolve(process.argv[2] ?? '.');
const work = mkdtempSync(join(tmpdir(), 'pack-'));
try {
  cpSync('dist', join(work, 'dist'), { recursive: true });
  cpSync('README.md', join(work, 'README.md'));
  const { scripts, devDependencies, ...published } = JSON.parse(readFileSync('package.json', 'utf8'));
  writeFileSync(join(work, 'package.json'), JSON.stringify({ ...published, version: VERSION }, null, 2));
  mkdirSync(folder, { recursive: true });
  const pack = [process.env.npm_execpath, 'pack', '--silent', '--pack-destination', folder];
  execFileSync(process.execPath, pack, { cwd: work, stdio: 'inherit' });
} finally {
  rmSync(work, { recursive: true });
}

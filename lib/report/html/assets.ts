import { readFileSync } from 'node:fs'
import { LaxityError } from '../../errors.ts'

export interface Assets {
  script: string
  style: string
}

/** The script and the style of the page, which `npm run build` bundles into dist; from sources they are read there too. */
export function readAssets(): Assets {
  const folder = import.meta.url.endsWith('.ts')
    ? new URL('../../../dist/report/html/', import.meta.url)
    : new URL('./', import.meta.url)
  try {
    return { script: read(folder, 'client.js'), style: read(folder, 'client.css') }
  } catch (cause) {
    throw new LaxityError('ERR_LAXITY_FILE', 'The page’s script is not built: `npm run build`', undefined, {
      cause,
    })
  }
}

function read(folder: URL, name: string): string {
  return readFileSync(new URL(name, folder), 'utf8')
}

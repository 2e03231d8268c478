import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** `engine.ts` in a process of its own. */
export interface Engine {
  url: string
  process: ChildProcess
  mode(name: string): Promise<void>
  counts(): Promise<{ served: number; running: number; most: number; aborted: number }>
}

export async function engine(prefillMs: number, tokenMs: number): Promise<Engine> {
  const script = fileURLToPath(new URL('./engine.ts', import.meta.url))
  const child = spawn(process.execPath, ['--import', 'tsx', script, String(prefillMs), String(tokenMs)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const port = await new Promise<number>((resolve) =>
    child.stdout!.once('data', (data) => resolve(Number(String(data)))),
  )
  const url = `http://127.0.0.1:${port}`
  return {
    url,
    process: child,
    mode: async (name) => void (await (await fetch(`${url}/mode/${name}`)).text()),
    counts: async () =>
      (await (await fetch(`${url}/counts`)).json()) as Awaited<ReturnType<Engine['counts']>>,
  }
}

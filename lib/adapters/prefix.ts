import type { Workflow } from '../scheduler/workflow.ts'

/** Characters of a block: prefixes are compared block by block. */
const BLOCK = 256
const CHARACTERS_PER_TOKEN = 4
/** Instances that are remembered per workflow, the latest. */
const MOST_INSTANCES = 4

interface Kept {
  instance: string
  blocks: Uint32Array
}

/**
 * Which part of a prompt an instance is likely to have in its prefix cache: what the prompt shares with the last one of
 * the same workflow that was served there. Prompts are kept as hashes of their blocks, one of the whole text up to each
 * block's end; a workflow that is gone takes its memory with it.
 */
export class PrefixMemory {
  readonly #kept = new WeakMap<Workflow, Kept[]>()

  /** Tokens by instance; undefined where nothing is shared. */
  cachedTokens(workflow: Workflow, blocks: Uint32Array): Record<string, number> | undefined {
    const kept = this.#kept.get(workflow)
    if (kept === undefined) return undefined
    const tokens: Record<string, number> = {}
    for (const { instance, blocks: before } of kept) {
      const shared = sharedBlocks(before, blocks)
      if (shared > 0) tokens[instance] = (shared * BLOCK) / CHARACTERS_PER_TOKEN
    }
    return Object.keys(tokens).length > 0 ? tokens : undefined
  }

  /** Whether any of its calls were served by this process. */
  knows(workflow: Workflow): boolean {
    return this.#kept.has(workflow)
  }

  /** An instance has served this prompt. */
  served(workflow: Workflow, instance: string, blocks: Uint32Array): void {
    const others = this.#kept.get(workflow)?.filter((one) => one.instance !== instance) ?? []
    this.#kept.set(workflow, [{ instance, blocks }, ...others].slice(0, MOST_INSTANCES))
  }

  /** The instance says that it had nothing. */
  forget(workflow: Workflow, instance: string): void {
    const kept = this.#kept.get(workflow)
    if (kept !== undefined)
      this.#kept.set(
        workflow,
        kept.filter((one) => one.instance !== instance),
      )
  }
}

/** Tokens of a text's whole blocks. */
export function wholeBlockTokens(text: string): number {
  return (Math.floor(text.length / BLOCK) * BLOCK) / CHARACTERS_PER_TOKEN
}

function sharedBlocks(a: Uint32Array, b: Uint32Array): number {
  const most = Math.min(a.length, b.length)
  let shared = 0
  while (shared < most && a[shared] === b[shared]) shared += 1
  return shared
}

/** FNV-1a over UTF-16 units, as it stands at the end of each whole block. */
export function blocksOf(prompt: string): Uint32Array {
  const blocks = new Uint32Array(Math.floor(prompt.length / BLOCK))
  let hash = 0x811c9dc5
  for (let i = 0, block = 0; block < blocks.length; block += 1) {
    for (const end = i + BLOCK; i < end; i += 1) hash = Math.imul(hash ^ prompt.charCodeAt(i), 0x01000193)
    blocks[block] = hash
  }
  return blocks
}

/** Which lines are mutated: a sample by seed over the folders whose mistakes would reach a decision. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { OPERATORS, type Operator, type Variant, variantsOf } from './operators.ts'
import { hash, random } from './random.ts'

export const FOLDERS = ['scheduler', 'planner', 'order', 'placement', 'simulator', 'cluster', 'workflow']

export interface Mutant {
  readonly id: number
  readonly file: string
  /** From 1. */
  readonly line: number
  readonly original: string
  readonly variant: Variant
  /** The same as long as the line says the same, wherever it stands. */
  readonly key: string
}

interface Candidate {
  readonly file: string
  readonly line: number
  readonly original: string
  /** File, text and which of the lines with this text, from 0. */
  readonly key: string
  readonly variants: readonly Variant[]
}

export function candidates(root: string): Candidate[] {
  const found: Candidate[] = []
  for (const folder of FOLDERS)
    for (const entry of readdirSync(join(root, 'native', folder), {
      recursive: true,
      encoding: 'utf8',
    }).sort()) {
      if (!/\.(cc|h)$/.test(entry)) continue
      const file = `native/${folder}/${entry}`
      const lines = readFileSync(join(root, file), 'utf8').split('\n')
      const met = new Map<string, number>()
      let before = ''
      for (const [i, original] of lines.entries()) {
        const variants = variantsOf(original, before)
        const text = original.trim()
        const nth = met.get(text) ?? 0
        met.set(text, nth + 1)
        const key = `${file} ${nth} ${text}`
        if (variants.length > 0) found.push({ file, line: i + 1, original, key, variants })
        if (text !== '') before = original
      }
    }
  return found
}

/**
 * `count` mutants on as many lines, for each seed in turn the lines that no seed before took. Operators take turns, so that the
 * rare ones are drawn as often as the lines allow. A line is ranked by its own text, so a change elsewhere leaves the sample as it was.
 */
export function sample(all: readonly Candidate[], seeds: readonly number[], count: number): Mutant[] {
  const mutants: Mutant[] = []
  const taken = new Set<string>()
  for (const [turn, seed] of seeds.entries()) {
    const order = ranked(all, seed)
    const wanted = Math.floor((count * (turn + 1)) / seeds.length)
    for (let i = 0; mutants.length < wanted; i++) {
      const drawn = draw(order, taken, OPERATORS[i % OPERATORS.length]!)
      if (drawn === undefined) {
        if (i > wanted * OPERATORS.length * 2) break
        continue
      }
      const [{ file, line, original, key }, variant] = drawn
      mutants.push({
        id: mutants.length,
        file,
        line,
        original,
        variant,
        key: `${key} ${variant.operator} ${variant.shown}`,
      })
    }
  }
  return mutants
}

interface Ranked {
  readonly candidate: Candidate
  readonly rank: number
  /** In [0, 1): which of its variants. */
  readonly pick: number
}

function ranked(all: readonly Candidate[], seed: number): Ranked[] {
  return all
    .map((candidate) => {
      const next = random(hash(`${seed} ${candidate.key}`))
      return { candidate, rank: next(), pick: next() }
    })
    .sort((a, b) => a.rank - b.rank || (a.candidate.key < b.candidate.key ? -1 : 1))
}

function draw(
  order: readonly Ranked[],
  taken: Set<string>,
  operator: Operator,
): [Candidate, Variant] | undefined {
  for (const { candidate, pick } of order) {
    if (taken.has(candidate.key)) continue
    const fitting = candidate.variants.filter((v) => v.operator === operator)
    if (fitting.length === 0) continue
    taken.add(candidate.key)
    return [candidate, fitting[Math.floor(pick * fitting.length)]!]
  }
  return undefined
}

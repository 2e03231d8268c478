/** Which lines are mutated: a sample by seed over the folders whose mistakes would reach a decision. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { OPERATORS, type Operator, type Variant, variantsOf } from './operators.ts'
import { random, shuffled } from './random.ts'

export const FOLDERS = ['scheduler', 'planner', 'order', 'placement', 'simulator', 'cluster', 'workflow']

export interface Mutant {
  readonly id: number
  readonly file: string
  /** From 1. */
  readonly line: number
  readonly original: string
  readonly variant: Variant
}

interface Candidate {
  readonly file: string
  readonly line: number
  readonly original: string
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
      let before = ''
      for (const [i, original] of lines.entries()) {
        const variants = variantsOf(original, before)
        if (variants.length > 0) found.push({ file, line: i + 1, original, variants })
        if (original.trim() !== '') before = original
      }
    }
  return found
}

/**
 * `count` mutants on as many lines, for each seed in turn the lines that no seed before took. Operators take turns, so that the
 * rare ones are drawn as often as the lines allow.
 */
export function sample(all: readonly Candidate[], seeds: readonly number[], count: number): Mutant[] {
  const mutants: Mutant[] = []
  const taken = new Set<Candidate>()
  for (const [turn, seed] of seeds.entries()) {
    const next = random(seed)
    const order = shuffled(all, next)
    const wanted = Math.floor((count * (turn + 1)) / seeds.length)
    for (let i = 0; mutants.length < wanted; i++) {
      const drawn = draw(order, taken, OPERATORS[i % OPERATORS.length]!, next)
      if (drawn === undefined) {
        if (i > wanted * OPERATORS.length * 2) break
        continue
      }
      const [{ file, line, original }, variant] = drawn
      mutants.push({ id: mutants.length, file, line, original, variant })
    }
  }
  return mutants
}

function draw(
  order: readonly Candidate[],
  taken: Set<Candidate>,
  operator: Operator,
  next: () => number,
): [Candidate, Variant] | undefined {
  for (const candidate of order) {
    if (taken.has(candidate)) continue
    const fitting = candidate.variants.filter((v) => v.operator === operator)
    if (fitting.length === 0) continue
    taken.add(candidate)
    return [candidate, fitting[Math.floor(next() * fitting.length)]!]
  }
  return undefined
}

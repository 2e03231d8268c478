import type { TemplateEntry } from './table.ts'

const LOOKUP = 'Information Retriever'
const KEYWORDS = 'extract_keywords'
const REVISE = 'revise'
const TESTER = 'unit_tester'
const TESTS = 'generate_unit_test'
const EVALUATE = 'evaluate'

/** What every CHESS workflow is expected to do: HexGen-Flow's published mean (input, output) per step, in tokens. */
export function chessTemplate(candidate: string): TemplateEntry[] {
  const entry = (stage: string, promptTokens: number, outputTokens: number) => ({
    stage,
    promptTokens,
    outputTokens,
  })
  const lookup = entry(LOOKUP, 308, 5)
  const revise = entry(REVISE, 5963, 79)
  const tester = entry(TESTER, 275, 4)
  return [
    lookup,
    entry(KEYWORDS, 667, 45),
    ...[lookup, lookup, lookup],
    entry(candidate, 11748, 678),
    ...[revise, revise, revise, revise],
    tester,
    entry(TESTS, 1109, 103),
    tester,
    entry(EVALUATE, 961, 22),
    tester,
  ].map((row) => ({ ...row }))
}

/**
 * The most a CHESS workflow does: ten revisions (the largest number in the published traces) and the upper end of the
 * published ranges of mean (input, output) per step, in tokens. Rounds that do not happen are given back: the stage that
 * comes instead drops them from what is expected, so that later budgets grow again.
 */
export function pessimisticChessTemplate(candidate: string): TemplateEntry[] {
  const longest = new Map<string, readonly [number, number]>([
    [LOOKUP, [308, 7]],
    [KEYWORDS, [700, 60]],
    [candidate, [11_900, 740]],
    [REVISE, [8_000, 156]],
    [TESTER, [275, 5]],
    [TESTS, [1_300, 103]],
    [EVALUATE, [1_270, 30]],
  ])
  const most = 10
  return chessTemplate(candidate).flatMap((entry, i, entries) => {
    const [promptTokens, outputTokens] = longest.get(entry.stage)!
    const longer = { stage: entry.stage, promptTokens, outputTokens }
    const lastRevision = entry.stage === REVISE && entries[i + 1]!.stage !== REVISE
    if (!lastRevision) return [longer]
    const revisions = entries.filter(({ stage }) => stage === REVISE).length
    return Array.from({ length: 1 + most - revisions }, () => ({ ...longer }))
  })
}

/** The paper's stage of each step, by step name. */
export function chessStageGroups(candidate: string): Map<string, string> {
  return new Map([
    [LOOKUP, '1 schema linking'],
    [KEYWORDS, '1 schema linking'],
    [candidate, '2 candidates'],
    [REVISE, '3 self-correction'],
    [TESTER, '4 evaluation'],
    [TESTS, '4 evaluation'],
    [EVALUATE, '4 evaluation'],
  ])
}

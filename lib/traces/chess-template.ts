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

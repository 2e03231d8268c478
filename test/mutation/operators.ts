/**
 * The table of operators. Each takes one line of clang-formatted C++ and says how it can be wrong.
 *
 * A mutant keeps both readings, chosen at run time by its id (mutation.h), so that one build holds all of them:
 * a condition C becomes `LAXITY_MUTANT(7) ? (C') : (C)`, a statement S becomes `if (!LAXITY_MUTANT(7)) S`.
 */

export const OPERATORS = [
  'flipped relation',
  'changed tie',
  'off by one',
  'swapped arguments',
  'deleted statement',
  'removed release',
] as const
export type Operator = (typeof OPERATORS)[number]

export interface Variant {
  readonly operator: Operator
  /** What the line says when the mutant is on, for people. */
  readonly shown: string
  /** The line with both readings. */
  build(id: number): string
}

const FLIPPED: Record<string, string> = { '==': '!=', '!=': '==', '<': '>=', '>=': '<', '>': '<=', '<=': '>' }
const TIES: Record<string, string> = { '<': '<=', '<=': '<', '>': '>=', '>=': '>' }
const RELEASES = /^[^=]*(release|remove|erase|pop|free|close|clear|reset|cancel|unlink|drop)[A-Za-z]*\(|-=/i
/** Whose arguments say the same in either order. */
const SYMMETRIC = /\b(std::(min|max)(<\w+>)?|_mm256_(add|and|or)_pd)\($/

/** All the ways in which `line` can be wrong; `before` is the last line above that is not blank. */
export function variantsOf(line: string, before: string): Variant[] {
  if (/^\s*(\/\/|#|\*|\/\*)/.test(line) || /static_assert|constexpr|LAXITY_|operator|"/.test(line)) return []
  return [...expressionVariants(line, before), ...statementVariants(line, before)]
}

function expressionVariants(line: string, before: string): Variant[] {
  const found = expressionIn(line, before)
  if (found === undefined) return []
  const { head, expression, tail } = found
  if (/[{}]|\[[&=\]]/.test(expression)) return []
  return [...wrong(expression)].map(([operator, other]) => ({
    operator,
    shown: `${head}${other}${tail}`.trim(),
    build: (id) => `${head}(LAXITY_MUTANT(${id}) ? (${other}) : (${expression}))${tail}`,
  }))
}

interface Expression {
  readonly head: string
  readonly expression: string
  readonly tail: string
}

function expressionIn(line: string, before: string): Expression | undefined {
  const condition = /^(\s*(?:\} else )?(?:if|while) \()(.*)$/.exec(line)
  if (condition !== null) {
    const [, head, rest] = condition as unknown as [string, string, string]
    const end = closing(rest)
    const expression = rest.slice(0, end)
    if (end < 0 || expression.includes(';')) return undefined
    return { head, expression, tail: rest.slice(end) }
  }
  const loop = /^(\s*for \([^;]*; )([^;]+)(; .*)$/.exec(line)
  if (loop !== null) return { head: loop[1]!, expression: loop[2]!, tail: loop[3]! }
  if (!startsStatement(before)) return undefined
  const value = /^(\s*(?:return|[\w.[\]>-]+ [-+|&]?=|(?:const )?[\w:]+[&*]? \w+ =) )([^=].*)(;)$/.exec(line)
  if (value !== null) return { head: value[1]!, expression: value[2]!, tail: value[3]! }
  return undefined
}

/** The position of the parenthesis that closes the one before `text`, or -1. */
function closing(text: string): number {
  let depth = 1
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '(') depth++
    else if (text[i] === ')' && --depth === 0) return i
  }
  return -1
}

function* wrong(expression: string): Generator<[Operator, string]> {
  for (const match of expression.matchAll(/(?<= )(==|!=|<=|>=|<|>)(?= )/g)) {
    const put = (sign: string) =>
      expression.slice(0, match.index) + sign + expression.slice(match.index + match[0].length)
    yield ['flipped relation', put(FLIPPED[match[0]]!)]
    const tie = TIES[match[0]]
    if (tie !== undefined) yield ['changed tie', put(tie)]
  }
  for (const match of expression.matchAll(/(?<=\w\()([\w.]+(?:->\w+)*), ([\w.]+(?:->\w+)*)(?=[,)])/g)) {
    const [all, first, second] = match as unknown as [string, string, string]
    if (first !== second && !SYMMETRIC.test(expression.slice(0, match.index)))
      yield [
        'swapped arguments',
        `${expression.slice(0, match.index)}${second}, ${first}${expression.slice(match.index + all.length)}`,
      ]
  }
  // A lone literal is a first value, which most often is written over before it is read.
  if (/^\d+$/.test(expression)) return
  for (const match of expression.matchAll(/(?<![\w.])\d+(?![\w.'])/g)) {
    const by = Number(match[0]) + 1
    yield [
      'off by one',
      expression.slice(0, match.index) + by + expression.slice(match.index + match[0].length),
    ]
  }
}

function statementVariants(line: string, before: string): Variant[] {
  const statement = /^(\s*)((?:[\w.[\]:]|->)+(?:\(.*\)| [-+|&]?= [^{]*)|(?:\+\+|--)[\w.[\]>-]+);$/.exec(line)
  if (
    statement === null ||
    !startsStatement(before) ||
    /^\s*(return|using|typename|break|continue)\b/.test(line)
  )
    return []
  const [, indent, text] = statement as unknown as [string, string, string]
  return [
    {
      operator: RELEASES.test(text) ? 'removed release' : 'deleted statement',
      shown: `/* ${text}; */`,
      build: (id) => `${indent}{ if (!LAXITY_MUTANT(${id})) { ${text}; } }`,
    },
  ]
}

/** No continuation: the line above ended a statement, opened a block or a body without braces. */
function startsStatement(before: string): boolean {
  return /[;{}):]$/.test(before) || /(^|\s)else$/.test(before) || /^\s*(\/\/|#)/.test(before)
}

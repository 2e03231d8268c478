/** What the output of each command says it has done: counts for the page, findings that make a step fail. */

export interface Counts {
  /** Each with its name, in the order of the page: `{ assertions: 1200 }`. */
  readonly numbers: Readonly<Record<string, number>>
  /** A sentence, where numbers do not say it. */
  readonly text?: string
  /** Why the step has not proved anything here, where the command itself says so and still exits with 0. */
  readonly skipped?: string
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: colours
const plain = (output: string) => output.replaceAll(/\x1b\[[0-9;]*m/g, '')

function sum(output: string, pattern: RegExp): number {
  let total = 0
  for (const [, digits] of output.matchAll(pattern)) total += Number(digits!.replaceAll(',', ''))
  return total
}

/** Without zeros, which say nothing on a page. */
function some(numbers: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(numbers).filter(([, n]) => n > 0))
}

/** doctest, of one program or of several parts of it. */
export function native(output: string): Counts {
  const text = plain(output)
  return {
    numbers: some({
      'test cases': sum(text, /^\[doctest\] test cases:\s*([\d,]+)/gm),
      assertions: sum(text, /^\[doctest\] assertions:\s*([\d,]+)/gm),
      scenarios: sum(text, /\b(\d+) (?:scenarios|runs|worlds)\b/g),
      failed: sum(text, /^\[doctest\] test cases:.*?(\d+) failed/gm),
    }),
  }
}

export function mocha(output: string): Counts {
  const text = plain(output)
  return {
    numbers: some({
      tests: sum(text, /^\s*(\d+) passing/gm),
      skipped: sum(text, /^\s*(\d+) pending/gm),
      failed: sum(text, /^\s*(\d+) failing/gm),
    }),
  }
}

export function check(output: string): Counts {
  return { numbers: some({ 'files checked': sum(plain(output), /Checked (\d+) files/g) }) }
}

const FINDING = /ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:/g

/** Native tests or tests of the addon under sanitizers. */
export function sanitizers(output: string): Counts {
  const text = plain(output)
  const findings = text.match(FINDING)?.length ?? 0
  return { numbers: { ...native(text).numbers, ...mocha(text).numbers, findings } }
}

export function fuzz(output: string): Counts {
  const text = plain(output)
  const inputs = sum(text, /^(\d+) inputs of the corpus/gm)
  return {
    numbers: {
      ...some({
        targets: (text.match(/^== fuzz: /gm) ?? []).length,
        executions: inputs + sum(text, /inputs of the corpus, (\d+) mutations/g),
        ...mocha(text).numbers,
      }),
      findings: (text.match(FINDING) ?? []).length + (text.match(/^fuzz: .* takes more than/gm) ?? []).length,
    },
  }
}

export function gate(output: string): Counts {
  const text = plain(output)
  const skipped =
    /^gate skipped: (.*)$/m.exec(text)?.[1] ?? /^(recorded with .*: nothing is compared)$/m.exec(text)?.[1]
  return {
    numbers: some({
      'hot paths': (text.match(/^\S+\s+\S+\s+[\d,]+ instructions/gm) ?? []).length,
      slower: (text.match(/SLOWER$/gm) ?? []).length,
    }),
    ...(skipped === undefined ? {} : { skipped }),
  }
}

export function mutation(output: string): Counts {
  const last = /^(\d+) of (\d+) killed .*?(\d+) argued equivalent, (\d+) open$/m.exec(plain(output))
  if (last === null) return { numbers: {} }
  const [, killed, mutants, equivalent, open] = last
  return {
    numbers: {
      mutants: Number(mutants),
      killed: Number(killed),
      'argued equivalent': Number(equivalent),
      open: Number(open),
    },
  }
}

export function coverage(output: string): Counts {
  const parts = [...plain(output).matchAll(/^coverage: (\S+) .*?: ([\d.]+) % \((\d+) of (\d+) lines/gm)]
  return {
    numbers: {},
    text: parts.map(([, part, percent, , lines]) => `${part} ${percent} % of ${lines} lines`).join(', '),
  }
}

export function studyCheck(output: string): Counts {
  const text = plain(output)
  const missing = /^redis-server is missing.*$/m.exec(text)?.[0]
  return {
    numbers: some({
      runs: sum(text, /^(\d+) runs, /gm),
      checks: (text.match(/^ok {2,}/gm) ?? []).length,
      failed: (text.match(/^FAIL /gm) ?? []).length,
    }),
    ...(missing === undefined ? {} : { skipped: missing }),
  }
}

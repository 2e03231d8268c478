import type { SimulateDocument } from '../result/schema.ts'

type Named = [name: string, value: unknown]

/**
 * A name for every run by what tells them apart: order and placement, where that is not enough whatever else differs
 * between them; equal ones are numbered.
 */
export function runLabels(runs: readonly SimulateDocument[]): string[] {
  const policies = runs.map(({ policy }) => `${policy.order} × ${policy.placement}`)
  if (new Set(policies).size === policies.length) return policies
  const traits = runs.map(traitsOf)
  const differs = (name: string) => new Set(traits.map((own) => text(own, name))).size > 1
  const extra = (traits[0] ?? []).map(([name]) => name).filter(differs)
  const labels = policies.map((policy, i) =>
    [policy, ...extra.map((name) => `${name} ${text(traits[i]!, name)}`)].join(', '),
  )
  return labels.map((label, i) => {
    const before = labels.slice(0, i).filter((other) => other === label).length
    return before === 0 ? label : `${label} (${before + 1})`
  })
}

function traitsOf({ policy, setup, cluster, knowledge, feedback }: SimulateDocument): Named[] {
  return [
    ['α', setup?.alpha],
    ['binding', policy.binding],
    ['migration', policy.migrate === true ? 'on' : 'off'],
    ['cluster', cluster],
    ['workload', setup?.trace.source],
    ['rate', setup?.rate],
    ['knowledge', knowledge],
    ['feedback', feedback],
    ['seed', setup?.seeds.arrivals],
    ['replication', setup?.replication],
  ]
}

function text(traits: readonly Named[], name: string): string {
  return String(traits.find(([own]) => own === name)?.[1] ?? '–')
}

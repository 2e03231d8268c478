import type { Arrivals } from '../../native.ts'
import { type ArrivalShape, arrivalsText } from '../../simulator/read-arrivals.ts'
import type { CompareDocument, SetupDocument, SimulateDocument, TuneDocument } from '../result/schema.ts'
import { count } from '../units.ts'

export type Fact = readonly [name: string, text: string]

const KNOWLEDGE: Readonly<Record<string, string>> = {
  online: 'revealed calls and predicted lengths',
  template:
    'revealed calls, predicted lengths, and the stages that a workflow of this kind is expected to have',
  declared: 'the whole graph at arrival, predicted lengths',
  oracle: 'the whole graph at arrival, true lengths: a bound, no policy for use',
}

const FEEDBACK: Readonly<Record<string, string>> = {
  boundary: 'the scheduler admits, at the engine’s batch boundaries',
  lease: 'the engine admits; the scheduler learns what a router learns',
}

/** Under what assumptions a result holds; what its file does not say is said to be unknown. */
export function runFacts(document: SimulateDocument | TuneDocument): Fact[] {
  const { setup, knowledge, cluster, trace } = document
  const size = `${count(trace.workflows)} workflows, ${count(trace.calls)} calls`
  if (setup === undefined) {
    const policy =
      document.command === 'simulate' ? policyText((document as SimulateDocument).policy) : UNKNOWN
    const feedback =
      document.command === 'simulate' ? described((document as SimulateDocument).feedback, FEEDBACK) : UNKNOWN
    return [
      ['Policy', policy],
      ['Cluster', cluster],
      ['Workload', size],
      ['Knowledge', described(knowledge, KNOWLEDGE)],
      ['Feedback', feedback],
      ['Seeds', UNKNOWN],
    ]
  }
  return [
    ['Policy', [policyText(setup.policy), ...parameters(setup)].join(', ')],
    ['Cluster', clusterText(setup)],
    ['Workload', `${setup.trace.source}: ${size}; ${trafficText(setup)}`],
    ['Knowledge', described(setup.knowledge, KNOWLEDGE) + errorText(setup)],
    ['Feedback', described(setup.feedback, FEEDBACK)],
    ['Deadlines', `arrival + ${scaleText(document, setup)} × base; base: ${baseText(setup.sloBase)}`],
    ['Seeds', seedText(setup)],
  ]
}

export function compareFacts({ rows }: CompareDocument): Fact[] {
  const all = (name: 'policy' | 'workload' | 'cluster' | 'load' | 'knowledge' | 'feedback') =>
    [...new Set(rows.map((row) => String(row[name])))].join(', ')
  const knowledge = [...new Set(rows.map((row) => row.knowledge))]
  return [
    ['Policies', all('policy')],
    ['Clusters', all('cluster')],
    ['Workloads', `${all('workload')} at load ${all('load')}`],
    ['Knowledge', knowledge.map((name) => described(name, KNOWLEDGE)).join('; ')],
    ['Feedback', all('feedback')],
    ['Seeds', 'the same traces, arrivals and lengths for every policy'],
  ]
}

const UNKNOWN = 'not stated in the result file'

function described(name: string, meanings: Readonly<Record<string, string>>): string {
  return Object.hasOwn(meanings, name) ? `${name} (${meanings[name]})` : name
}

function policyText({ order, placement, binding, migrate }: SimulateDocument['policy']): string {
  return `${order} × ${placement} × ${binding}${migrate === true ? ' with migration' : ''}`
}

function parameters({ parameters: given = {}, alpha, lookahead = 0, compat }: SetupDocument): string[] {
  return [
    ...(alpha === undefined ? [] : [`α = ${alpha}`]),
    ...Object.entries(given).map(([name, value]) => `${name} = ${value}`),
    ...(lookahead > 0 ? [`lookahead ${lookahead}`] : []),
    ...(compat === undefined ? [] : [`compat ${compat}`]),
  ]
}

function clusterText({ cluster }: SetupDocument): string {
  const parts = cluster.instances.map(
    ({ count: n, label, mode, kvTokens, maxSequences }) =>
      `${n} × ${label} (${mode}, KV ${count(kvTokens)} tokens, at most ${count(maxSequences)} sequences)`,
  )
  return `${cluster.name}: ${parts.join('; ')}`
}

function trafficText({ arrivals, rate, arrivalShape }: SetupDocument): string {
  if (rate === undefined) return 'recorded arrivals'
  return `${arrivalsText(arrivals as Arrivals, arrivalShape as ArrivalShape)} at ${rate}/s`
}

function errorText({ error }: SetupDocument): string {
  return error === undefined ? '; predictions are exact' : `; prediction errors ${error}`
}

/** Tenants may have SLO scales of their own. */
function scaleText(document: SimulateDocument | TuneDocument, { sloScale }: SetupDocument): string {
  const { tenants = [] } =
    document.command === 'tune' ? (document as TuneDocument).points[0]! : (document as SimulateDocument)
  if (tenants.every((tenant) => tenant.sloScale === sloScale)) return String(sloScale)
  return tenants.map((tenant) => `${tenant.sloScale ?? '∞'} (${tenant.name})`).join(' or ')
}

function baseText(base: string): string {
  if (base === 'template') return 'the stage template’s mean time on this cluster'
  if (base === 'exclusive') return 'each workflow’s longest path alone, at mean times'
  return base
}

function seedText({ seeds, replication, replications }: SetupDocument): string {
  const streams =
    replications === undefined
      ? `, replication ${replication ?? 0}`
      : replications === 1
        ? ', replication 0'
        : `, replications 0 to ${replications - 1} (the same streams for every α)`
  return `arrivals ${seeds.arrivals}${streams}; ties ${seeds.ties}; placement ${seeds.placement}`
}

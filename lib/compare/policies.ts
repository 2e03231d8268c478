import { LaxityError, quote } from '../errors.ts'
import type { SimulateOptions } from '../simulator/options.ts'
import type { Policy } from '../simulator/policies.ts'
import { type ClusterKind, type Registry, readPolicy } from '../simulator/read-policy.ts'
import { OptionReader } from '../simulator/validate.ts'

/** A policy of a comparison: what was asked for, and what that is on a kind of cluster. */
export interface NamedPolicy {
  name: string
  policy: Policy
}

/** What is compared where nobody says. */
export const DEFAULT_POLICIES = {
  paired: ['hexagent', 'workflow-fcfs/least-loaded'],
  unified: ['laxity', 'hexgen-flow', 'vllm'],
  unknown: [],
} as const

/** `preset` or `order/placement[/binding]` as the option of a run. */
export function policyOption(name: string): NonNullable<SimulateOptions['policy']> {
  if (!name.includes('/')) return name
  const [order, placement, binding, ...rest] = name.split('/')
  // What is too much stays in the last part, so that the message about it shows it.
  const last = rest.length === 0 ? binding : [binding, ...rest].join('/')
  return { order: order!, placement: placement!, binding: last as Policy['binding'] | undefined }
}

/** @throws LaxityError ERR_LAXITY_OPTION with every problem of it, under `policy`. */
export function namedPolicy(registry: Registry, kind: ClusterKind, name: string): NamedPolicy {
  const own = new OptionReader({ policy: policyOption(name) }, ['policy'])
  const { policy } = readPolicy(own, registry, kind)
  if (own.problems.count === 0) return { name, policy }
  // The parts have no options of their own here.
  const messages = own.problems.messages.map((message) => message.replace(/^policy(\.\w+)?: /, ''))
  const message = `${messages.join('; ')} (in \`policy\` ${quote(name)})`
  throw new LaxityError('ERR_LAXITY_OPTION', message, 'policy')
}

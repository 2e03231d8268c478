// What is compared: workloads, clusters, models, policies, and how the pools of a cluster work together.
import { native } from '../../dist/native.js'

export const WORKLOADS = ['sharegpt', 'bfcl', 'lats', 'mixed']
export const HETERO = ['hexagent-hetero-1', 'hexagent-hetero-2']
export const MODELS = { llama: 'llama-3.1-70b', qwen: 'qwen3-235b-a22b' }
export const MODEL_NAMES = { llama: 'Llama-3.1-70B', qwen: 'Qwen3-235B-A22B' }
export const CLUSTER_NAMES = {
  'hexagent-hetero-1': 'Hetero-1',
  'hexagent-hetero-2': 'Hetero-2',
  'hexagent-h200': 'H200',
  'hexagent-a100': 'A100',
}

export const HEXAGENT = 'hexagent'
export const PER_CALL = 'fcfs/least-loaded'
export const WORKFLOW = 'workflow-fcfs/least-loaded'

/** The paper's baselines: SGLang-FCFS, SGLang-LLF, Autellix-ATLAS; the last where the order is registered. */
export const BASELINES = [
  WORKFLOW,
  'llf/least-loaded',
  ...(native.orders.includes('atlas') ? ['atlas/least-loaded'] : []),
]

/** Further ones, for the record. */
export const OTHERS = [
  PER_CALL,
  ...['atlas', 'plas'].filter((name) => native.orders.includes(name)).map((name) => `${name}/least-loaded`),
  'llf/least-loaded',
  'srpt/least-loaded',
  'workflow-fcfs/earliest-finish',
  'ratio/least-loaded',
  ...['splitwise', 'distserve', 'mooncake', 'global-queue']
    .filter((name) => native.pairPlacements.includes(name))
    .map((name) => `workflow-fcfs/${name}`),
]

/** As the paper simulates, and what this package takes for granted instead. */
export const POOLS = {
  paper: { label: '`--paper`', options: { links: 'free', staging: 'unlimited' } },
  early: { label: 'defaults', options: {} },
  late: { label: 'reserve late', options: { reserve: 'late' } },
  lease: { label: 'feedback lease', options: { feedback: 'lease' } },
}

export function sizes(quick) {
  return quick
    ? { seeds: 2, workflows: 60, steadySeeds: 2, others: 30, overload: 100 }
    : { seeds: 10, workflows: 1000, steadySeeds: 3, others: 300, overload: 10_000 }
}

// What the paper reports (arXiv 2605.16637, sections 5 and 6). Figures, not text. `null`: not known to us.

/** Workflows and arrivals per second of its traces. */
export const TRACES = {
  sharegpt: { name: 'ShareGPT', workflows: 100, rate: 10 },
  bfcl: { name: 'BFCL-v3', workflows: 400, rate: 40 },
  lats: { name: 'LATS', workflows: 100, rate: 40 },
  mixed: { name: 'Mixed', workflows: 100, rate: 10 },
}

/** Table 1: Req95 / Req99 under per-call FCFS, workflow-FCFS and HexAGenT. */
export const TABLE_1 = [
  { model: 'llama', trace: 'sharegpt', perCall: [5.85, 7.43], workflow: [4.5, 6.22], hexagent: [2.5, 2.6] },
  { model: 'llama', trace: 'bfcl', perCall: [13.81, 17.23], workflow: [7.23, 9.8], hexagent: [6.21, 6.34] },
  { model: 'qwen', trace: 'bfcl', perCall: [21.11, 26.89], workflow: [9.64, 11.67], hexagent: [8.39, 8.57] },
  { model: 'qwen', trace: 'mixed', perCall: [11.15, 15.84], workflow: [10.3, 15.01], hexagent: [3.48, 3.94] },
]
/** Mean reductions of Table 1, %: workflow-FCFS against per-call, HexAGenT against workflow-FCFS. */
export const TABLE_1_MEANS = { workflow: [31.4, 23.3], hexagent: [26.9, 42.6] }

/** Table 2: mean over the traces of the reduction against the strongest baseline of each, %. */
export const TABLE_2 = [
  { model: 'llama', cluster: 'hexagent-hetero-1', theirs: [null, 18.2] },
  { model: 'llama', cluster: 'hexagent-hetero-2', theirs: [6.1, 13.9] },
  { model: 'qwen', cluster: 'hexagent-hetero-1', theirs: [21.1, 33.1] },
  { model: 'qwen', cluster: 'hexagent-hetero-2', theirs: [null, 32.8] },
]
export const TABLE_2_MEAN = [13.0, 24.5]

/** Table 3: Qwen on Hetero-1, strongest baseline and HexAGenT. */
export const TABLE_3 = {
  sharegpt: { req95: [null, null], req99: [5.45, 3.5] },
  bfcl: { req95: [8.9, 8.39], req99: [11.13, 8.57] },
  lats: { req95: [null, null], req99: [3.34, 2.75] },
  mixed: { req95: [null, 3.48], req99: [8.96, 3.94] },
}

/** Table 4: homogeneous clusters, mean reduction against the strongest baseline, %. */
export const TABLE_4 = [
  { model: 'llama', cluster: 'hexagent-h200', theirs: [24.8, 36.8] },
  { model: 'qwen', cluster: 'hexagent-a100', theirs: [23.1, 33.9] },
]

/** Table 5: largest degradation of Req99 by multiplicative errors of the estimates, %, as far as known. */
export const TABLE_5 = {
  llama: 'at most 1.5 % (Req99, all errors)',
  qwen: 'largest 9.5 % (at 10 %), 5.4 % at 30 %',
}

/** Table 6: ms per invocation. */
export const TABLE_6 = { mean: '7.1–14.7', worst: 23.7 }

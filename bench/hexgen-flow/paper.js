// What the paper reports (arXiv 2505.05286, abstract, sections 5 and 6, Tables 2 to 4). Figures, not text.

/** 95 % SLO scale, baseline and HexGen-Flow. */
export const SLO_SCALES = [
  { trace: 1, cluster: 'hexgen-hetero-1', rate: 0.5, baseline: 'vLLM', theirs: [5.4, 3.5] },
  { trace: 2, cluster: 'hexgen-hetero-2', rate: 0.5, baseline: 'VTC', theirs: [7.9, 5.2] },
  { trace: 3, cluster: 'hexgen-hetero-2', rate: 1.0, baseline: 'QLM', theirs: [7.8, 6.1] },
  { trace: 3, cluster: 'hexgen-homo', rate: 1.0, baseline: 'strongest', theirs: [7.2, 5.9] },
]

export const THROUGHPUT_OVER_VLLM = '1.49–1.81'
export const P95_OVER_BASELINES = '1.42–1.56'
export const BEST_ALPHA = { 'hexgen-hetero-1': '0.1–0.2', 'hexgen-hetero-2': '0.3–0.4' }
export const WB_ALONE = '10.5–34.8 %'
export const PQ_ALONE = 'up to 48 %'
export const MACSQL_P95_GAIN = '34–38 %'

/** Table 2: share of each stage inside each instance, %; trace 3, hexgen-hetero-2, 0.5 workflows/s. */
export const STAGE_MIX = {
  'round-robin': [
    [20.8, 23.1, 19.9, 26.8],
    [10.3, 7.8, 10.6, 9.6],
    [26.5, 23.0, 25.5, 21.7],
    [42.3, 46.0, 44.1, 41.8],
  ],
  'workload-balanced': [
    [0.9, 0.5, 6.1, 32.3],
    [27.9, 29.6, 16.5, 3.1],
    [47.9, 46.6, 71.5, 8.3],
    [23.3, 23.3, 5.8, 56.3],
  ],
}

/** Table 3: a local queue; arrival and urgency in s. PQ runs the sixth, FCFS the first. */
export const QUEUE = [
  [22.4, 14.5],
  [46.3, 13.2],
  [52.3, 19.0],
  [62.4, 13.1],
  [62.8, 19.0],
  [64.4, 26.9],
  [65.0, 21.9],
]

/** Table 4: seconds for one tuning sweep, by trace 1, 2, 3. */
export const TUNING_S = [
  { cluster: 'hexgen-hetero-1', rate: 0.5, seconds: [124.6, 122.3, 142.2] },
  { cluster: 'hexgen-hetero-1', rate: 1.0, seconds: [133.3, 137.8, 149.7] },
  { cluster: 'hexgen-hetero-2', rate: 0.5, seconds: [124.7, 141.3, 158.0] },
  { cluster: 'hexgen-hetero-2', rate: 1.0, seconds: [115.6, 133.4, 154.2] },
]

// The suites, in the order in which they run; each is a module of this folder. A suite is
// `run(say, {quick})`, which gives rows:
//
//   name, value, unit   the median
//   low, high, samples  quartiles, and of how many
//   target              what is asked of it, where something is
//   traffic             the least that has to move, for the limit (performance/limits.js)
//   point               {series, x}: part of a curve (performance/curves.js)
//   note                anything else
export const SUITES = [
  'machine',
  'structures',
  'dispatch',
  'planner',
  'boundary',
  'model',
  'sweep',
  'simulator',
  'pairs',
  'scaling',
  'live',
  'busy',
]

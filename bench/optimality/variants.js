// Every variant that was tried on choosing seeds: nothing is ever taken off this list, so that its length is the number of
// things that had a chance to look good. The first is what the others are compared with.
export const VARIANTS = [
  { name: 'hexagent', options: { policy: 'hexagent' } },
  { name: 'kv-price', options: { policy: { order: 'ratio', placement: 'kv-price' } } },
  {
    name: 'kv-price 5',
    options: { policy: { order: 'ratio', placement: 'kv-price' }, parameters: { kvPrice: 5 } },
  },
  {
    name: 'kv-price 20',
    options: { policy: { order: 'ratio', placement: 'kv-price' }, parameters: { kvPrice: 20 } },
  },
  { name: 'exact', options: { policy: 'hexagent', remaining: 'exact' } },
  {
    name: 'exact, kv-price',
    options: { policy: { order: 'ratio', placement: 'kv-price' }, remaining: 'exact' },
  },
]

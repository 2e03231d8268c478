// Every variant that was tried on choosing seeds: nothing is ever taken off this list, so that its length is the number of
// things that had a chance to look good. The first is what the others are compared with.
// In tried.json, `former: ` names what was tried with a structural minimum that the core no longer has: silent before 20
// workflows, the least of them from there on, without stages. Screened before they were written down here: screened.json.
const PLAIN = 'earliest-finish'
const PRICED = 'kv-price'
const ratio = (placement) => ({ order: 'ratio', placement })
const levelRatio = (placement) => ({ order: 'level-ratio', placement })
const level = (placement) => ({ order: 'level-laxity', placement })
const MINIMUM = { structuralMinimum: 1 }
const OWN = { structuralMinimum: 1, predictHorizons: 1 }

const variant = (name, policy, parameters = {}, remaining = undefined) => ({
  name,
  options: { policy, parameters, ...(remaining !== undefined && { remaining }) },
})

export const VARIANTS = [
  variant('hexagent', ratio(PLAIN)),
  variant('kv-price', ratio(PRICED)),
  variant('minimum', ratio(PLAIN), MINIMUM),
  variant('minimum + kv-price', ratio(PRICED), MINIMUM),
  variant('own predictor + kv-price', ratio(PRICED), OWN),
  variant('own predictor q 0.05 + kv-price', ratio(PRICED), { ...OWN, horizonQuantile: 0.05 }),
  variant('own predictor q 0.01 + kv-price', ratio(PRICED), { ...OWN, horizonQuantile: 0.01 }),
  variant('minimum + kv-price 20', ratio(PRICED), { ...MINIMUM, kvPrice: 20 }),
  variant('minimum + kv-price 5', ratio(PRICED), { ...MINIMUM, kvPrice: 5 }),
  variant('predictor 0.3 + minimum + kv-price', ratio(PRICED), MINIMUM, 'predictor:0.3'),
  variant('sigma 0.3 + minimum + kv-price', ratio(PRICED), MINIMUM, 0.3),
  variant('exact', ratio(PLAIN), {}, 'exact'),
  variant('exact + kv-price', ratio(PRICED), {}, 'exact'),
  variant('exact + level-laxity + kv-price', level(PRICED), {}, 'exact'),
  variant('kv-price 20', ratio(PRICED), { kvPrice: 20 }),
  variant('kv-price 40', ratio(PRICED), { kvPrice: 40 }),
  variant('kv-price 20 over 3 s', ratio(PRICED), { kvPrice: 20, kvPriceMs: 3000 }),
  variant('kv-price 20 over 30 s', ratio(PRICED), { kvPrice: 20, kvPriceMs: 30_000 }),
  variant('level-laxity + minimum + kv-price', level(PRICED), MINIMUM),
  variant('minimum q 0.05 + kv-price', ratio(PRICED), { ...MINIMUM, horizonQuantile: 0.05 }),
  variant('exact + level-laxity + kv-price 20', level(PRICED), { kvPrice: 20 }, 'exact'),
  variant('level-ratio + kv-price', levelRatio(PRICED)),
  variant('level-ratio + minimum + kv-price', levelRatio(PRICED), MINIMUM),
  variant('level-ratio + minimum q 0.01 + kv-price', levelRatio(PRICED), {
    ...MINIMUM,
    horizonQuantile: 0.01,
  }),
  variant('level-ratio + predictor 0.3 + minimum + kv-price', levelRatio(PRICED), MINIMUM, 'predictor:0.3'),
  variant('level-ratio + predictor 0.7 + minimum + kv-price', levelRatio(PRICED), MINIMUM, 'predictor:0.7'),
  variant('level-ratio + exact + kv-price', levelRatio(PRICED), {}, 'exact'),
]

/** The same on unified clusters, against what `laxity` is there. */
const own = { order: 'ratio', placement: 'eftxp', binding: 'at-reveal' }
const migrating = (name, parameters, remaining) => {
  const { options } = variant(name, own, parameters, remaining)
  return { name, options: { ...options, migrate: true } }
}
export const UNIFIED = [
  migrating('unified: laxity', {}),
  migrating('unified: minimum', MINIMUM),
  migrating('unified: own predictor', OWN),
  migrating('unified: kvWeight 6', { kvWeight: 6 }),
]

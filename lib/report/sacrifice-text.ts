import type { Sacrifice } from '../simulator/sacrifice.ts'
import { table } from './table.ts'
import { count, duration, percent, significant } from './units.ts'

/** What it cost in the largest ratio, and who paid. */
export function sacrificeText(sacrifice: Sacrifice, workflows: number): string {
  const { share, sacrificed, largest, largestOthers, largestWithout } = sacrifice
  const payers = [
    ...sacrifice.sizes.map((size, i) => ({
      who: `size quarter ${i + 1}, to ${duration(size.toMs)}`,
      ...size,
    })),
    ...sacrifice.tenants.map((tenant) => ({ who: `tenant ${tenant.name}`, ...tenant })),
  ]
  const rows = payers.map((payer) => [
    payer.who,
    count(payer.workflows),
    count(payer.sacrificed),
    percent(payer.workflows === 0 ? 0 : payer.sacrificed / payer.workflows),
  ])
  return [
    `sacrifice, at most ${percent(share)}: ${count(sacrificed)} of ${count(workflows)} workflows put behind the others`,
    `largest latency / base ${significant(largest)}, without sacrifice ${significant(largestWithout)}; of the others ${significant(largestOthers)}`,
    table(['who pays', 'workflows', 'put behind', 'share'], rows),
  ].join('\n')
}

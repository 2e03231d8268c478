import assert from 'node:assert/strict'
import { groups } from '../../../lib/report/html/figures/attainment.ts'
import { randomTable } from './shared.ts'

describe('tenants in figures', () => {
  it('are the largest, in their order', () => {
    const table = randomTable(3, { instances: 1, workflows: 200, calls: 1, times: 10 })
    // Tenant t has t workflows, the last one the rest.
    const tenant = Uint16Array.from({ length: 200 }, (_, w) =>
      Math.min(16, Math.floor((1 + Math.sqrt(1 + 8 * w)) / 2)),
    )
    const tenants = Array.from({ length: 17 }, (_, t) => `t${t}`)
    const found = groups({ ...table, tenants, workflows: { ...table.workflows, tenant } })
    assert.deepEqual(
      found.map((group) => group.tenant),
      Array.from({ length: 12 }, (_, i) => `t${i + 5}`),
    )
    for (const { tenant: name, rows } of found) assert(rows.every((w) => tenants[tenant[w]!] === name))
    assert.deepEqual(
      groups(table).map(({ tenant: name, rows }) => [name, rows.length]),
      [[undefined, 200]],
    )
  })
})

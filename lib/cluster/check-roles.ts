import { expected, quote } from '../errors.ts'
import type { Problems } from '../report/problems.ts'
import { LINK_FIELDS } from './roles.ts'

type Raw = Record<string, unknown>

/** What goes with the role of one instance. */
export function checkRole(instance: Raw, where: string, problems: Problems): void {
  const { role = 'unified' } = instance
  const wrong = (field: string, message: string) =>
    problems.add('ERR_LAXITY_FIELD', message, `${where}.${field}`)
  if (role === 'unified') {
    for (const field of LINK_FIELDS) {
      if (instance[field] !== undefined) wrong(field, `\`${field}\` needs \`role\` "prefill" or "decode"`)
    }
  } else if (role === 'prefill' || role === 'decode') {
    if (instance.mode !== undefined && instance.mode !== 'prefill-first') {
      wrong('mode', `\`mode\` is for unified instances: with \`role\` ${quote(role)} nothing is mixed`)
    }
    if (typeof instance.latency === 'string' && instance.kvBytesPerToken === undefined) {
      wrong('kvBytesPerToken', expected('the KV of a token in bytes', 'kvBytesPerToken', undefined))
    }
  }
  if (role !== 'prefill' && instance.prefillBatchTokens !== undefined) {
    wrong('prefillBatchTokens', '`prefillBatchTokens` needs `role` "prefill"')
  }
  if (role === 'decode') {
    for (const field of ['prefixCacheTokens', 'prefixCacheTiers']) {
      if (instance[field] === undefined || instance[field] === 0) continue
      wrong(field, `\`${field}\` is for instances that prefill, not for \`role\` "decode"`)
    }
  }
}

/** A cluster is unified, or prefill and decode, as a whole; then each of its models needs both. */
export function checkRoles(instances: readonly unknown[], where: string, problems: Problems): void {
  const seen = instances.flatMap((instance, index) => {
    if (typeof instance !== 'object' || instance === null) return []
    const { role = 'unified', model } = instance as Raw
    return ['unified', 'prefill', 'decode'].includes(role as string) ? [{ index, role, model }] : []
  })
  const unified = seen.find(({ role }) => role === 'unified')
  const paired = seen.find(({ role }) => role !== 'unified')
  if (paired === undefined) return
  if (unified !== undefined) {
    const message = `A cluster is unified, or prefill and decode, as a whole: instances[${unified.index}] is unified, instances[${paired.index}] has role "${paired.role}"`
    problems.add('ERR_LAXITY_FIELD', message, where)
    return
  }
  // Instances that name no model serve the trace's only one, which is that of the others where they name just one.
  const named = new Set(seen.flatMap(({ model }) => (typeof model === 'string' ? [model] : [])))
  const groups = named.size > 1 ? [...named] : [undefined]
  for (const group of groups) {
    const own =
      group === undefined ? seen : seen.filter(({ model }) => model === undefined || model === group)
    for (const role of ['prefill', 'decode']) {
      if (own.some((instance) => instance.role === role)) continue
      const whose = group === undefined ? '' : ` for model ${quote(group)}`
      const message = `No instance has role "${role}"${whose}: a prefill-decode cluster needs both`
      problems.add('ERR_LAXITY_FIELD', message, where)
    }
  }
}

import type { LaxityError } from '../errors.ts'

/** Options of the API whose flag is not their name in kebab case. */
const FLAGS: Readonly<Record<string, string>> = { alphas: 'alpha', parameters: 'parameter' }

/** One line for people: `MESSAGE [CODE]`, with flags in place of the API's option names. */
export function errorLine(error: LaxityError): string {
  const parts = error.cause instanceof AggregateError ? (error.cause.errors as LaxityError[]) : [error]
  const messages = parts.slice(0, 20).map(messageOf)
  if (parts.length > messages.length) messages.push(`and ${parts.length - messages.length} more`)
  const text = parts.length === 1 ? messages[0]! : `${parts.length} problems: ${messages.join('; ')}`
  return oneLine(`laxity: ${text} [${error.code}]`)
}

/** No line breaks and no control characters: file names and messages may hold any. */
export function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, ' ').trim()
}

function messageOf(error: LaxityError): string {
  const { code, place } = error
  if (code !== 'ERR_LAXITY_OPTION' || place === undefined) return error.message
  // The sentence names the option itself.
  const prefix = `${place}: `
  const message = error.message.startsWith(prefix) ? error.message.slice(prefix.length) : error.message
  const named = message.includes(`\`${place}\``) ? message : `${place}: ${message}`
  return named.replaceAll(`\`${place}\``, `\`${flagOf(place)}\``)
}

function flagOf(option: string): string {
  if (option === 'trace') return option
  const [name = '', ...path] = option.split('.')
  const flag = FLAGS[name] ?? name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
  return [`--${flag}`, ...path].join(' ')
}

import { expected, LaxityError } from '../errors.ts'
import { text } from './checks.ts'
import type { SchedulerOptions } from './options.ts'
import { Scheduler } from './scheduler.ts'

const KEY = Symbol.for('laxity.schedulers')

/**
 * The process's scheduler of this name, made on first use. Hosts that load a module again per request, or two copies of
 * this package, find the same one: its accounting is only right where all traffic goes through it.
 *
 * @throws LaxityError ERR_LAXITY_FIELD, and what the constructor throws
 */
export function sharedScheduler(options: () => SchedulerOptions, name = 'default'): Scheduler {
  if (typeof options !== 'function')
    throw new LaxityError('ERR_LAXITY_FIELD', expected('a function', 'options', options), 'options')
  text(name, 'name')
  const holder = globalThis as { [KEY]?: Map<string, Scheduler> }
  holder[KEY] ??= new Map()
  const known = holder[KEY].get(name)
  if (known !== undefined) return known
  const made = new Scheduler(options())
  holder[KEY].set(name, made)
  return made
}

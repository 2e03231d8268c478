/** Colours of figures. Every text has a contrast of 4.5 : 1 on its ground, every line 3 : 1. */
export interface Theme {
  ground: string
  ink: string
  muted: string
  grid: string
  accent: string
  accentLight: string
  /** Phases of a call. */
  prefill: string
  decode: string
  /** Of series after the first, which has `ink`; told apart by dashes and markers too. */
  series: readonly string[]
}

// Series follow Okabe and Ito (2008), darkened on light ground: they differ for all common kinds of colour blindness.
const LIGHT: Theme = {
  ground: '#ffffff',
  ink: '#1c1f23',
  muted: '#5c636b',
  grid: '#e4e2dd',
  accent: '#a8321f',
  accentLight: '#e0a397',
  prefill: '#3f4a57',
  decode: '#aab6c3',
  series: ['#1c1f23', '#0067a5', '#b84e00', '#00755a', '#8c4a86', '#7a6200'],
}

const DARK: Theme = {
  ground: '#16181b',
  ink: '#eceae6',
  muted: '#a3a8ae',
  grid: '#303439',
  accent: '#ff9683',
  accentLight: '#8d4438',
  prefill: '#c3ccd6',
  decode: '#5d6874',
  series: ['#eceae6', '#6fb7ea', '#f0994f', '#4fc7a1', '#dba0d3', '#d8bf4a'],
}

export const DASHES = ['none', '7 3', '2 3', '9 3 2 3', '4 2', '1 2'] as const
export const SYMBOLS = ['circle', 'square', 'triangle', 'diamond', 'star', 'wye'] as const

export const FONT =
  'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif'

const dark = matchMedia('(prefers-color-scheme: dark)')
let isPrinting = false

/** What the reader sees now; paper is light. */
export function currentTheme(): Theme {
  return dark.matches && !isPrinting ? DARK : LIGHT
}

/** What a saved figure looks like. */
export const paperTheme: Theme = LIGHT

export function onThemeChange(draw: () => void): void {
  dark.addEventListener('change', draw)
  addEventListener('beforeprint', () => {
    isPrinting = true
    draw()
  })
  addEventListener('afterprint', () => {
    isPrinting = false
    draw()
  })
}

export function seriesColor(theme: Theme, i: number): string {
  return theme.series[i % theme.series.length]!
}

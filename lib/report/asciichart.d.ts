/** The part of asciichart 1.5 that is used; the package ships no types. */
declare module 'asciichart' {
  export interface PlotConfig {
    min?: number
    max?: number
    height?: number
    /** Columns before the curve, with the axis. */
    offset?: number
    format?: (level: number, index: number) => string
  }
  const asciichart: { plot(series: readonly number[], config?: PlotConfig): string }
  export default asciichart
}

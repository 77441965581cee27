-- Print the results of a wrk run as one line of JSON.
return function(summary, latency)
  local errors = summary.errors
  local lost = errors.connect + errors.read + errors.write
  io.write(string.format(
    '\n{"requests": %d, "seconds": %.4f, "refused": %d, "lost": %d, "p50_ms": %.3f, "p99_ms": %.3f, "max_ms": %.3f}\n',
    summary.requests, summary.duration / 1e6, errors.status, lost,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, latency.max / 1000))
end

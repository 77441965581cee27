-- Claims one task and reports it done, over and over, as the agents of BENCH_LINES in turn.
-- Each line is "TOKEN AGENT". An answer to a claim becomes the next request of whoever is free.
local tokens, names, running = {}, {}, {}
for line in io.lines(os.getenv("BENCH_LINES")) do
  local token, name = string.match(line, "^(%S+) (%S+)$")
  tokens[name] = token
  names[#names + 1] = name
end
local turn = 0
local headers = { ["Content-Type"] = "application/json" }

request = function()
  local claimed = table.remove(running)
  if claimed then
    headers["Authorization"] = "Bearer " .. tokens[claimed.name]
    return wrk.format("POST", "/v1/attempts/" .. claimed.id .. "/result", headers,
      '{"status":"success","result":{"ok":1}}')
  end
  turn = turn % #names + 1
  headers["Authorization"] = "Bearer " .. tokens[names[turn]]
  return wrk.format("POST", "/v1/claims", headers, '{}')
end

response = function(status, _, body)
  local attempt = string.match(body, '"attempt":{"id":"([^"]+)"')
  if attempt then
    running[#running + 1] = { id = attempt, name = string.match(body, '"agent":"([^"]+)"') }
  end
end

done = dofile(os.getenv("BENCH_SUMMARY"))

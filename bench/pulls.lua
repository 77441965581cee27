-- Pulls one instruction and acknowledges it, over and over, as the agents of BENCH_LINES in turn.
-- Each line is "TOKEN AGENT". An answer to a pull becomes the next request of whoever is free.
local tokens, names, waiting = {}, {}, {}
for line in io.lines(os.getenv("BENCH_LINES")) do
  local token, name = string.match(line, "^(%S+) (%S+)$")
  tokens[name] = token
  names[#names + 1] = name
end
local turn = 0
local headers = { ["Content-Type"] = "application/json" }

request = function()
  local pulled = table.remove(waiting)
  if pulled then
    headers["Authorization"] = "Bearer " .. tokens[pulled.name]
    return wrk.format("POST", "/v1/instructions/" .. pulled.id .. "/ack", headers, '{"outcome":"done"}')
  end
  turn = turn % #names + 1
  headers["Authorization"] = "Bearer " .. tokens[names[turn]]
  return wrk.format("POST", "/v1/instructions/pull", headers, '{"limit":1}')
end

response = function(status, _, body)
  if string.find(body, '"state":"delivered"', 1, true) then
    waiting[#waiting + 1] = {
      id = string.match(body, '"id":"([^"]+)"'), name = string.match(body, '"agent_name":"([^"]+)"') }
  end
end

done = dofile(os.getenv("BENCH_SUMMARY"))

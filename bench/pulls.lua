-- Pull one instruction and acknowledge it, repeatedly.
local send_pairs = dofile(os.getenv("BENCH_LUA") .. "/request_pairs.lua")

send_pairs(
  { path = "/v1/instructions/pull", body = '{"limit":1}' },
  { path = "/v1/instructions/%s/ack", body = '{"outcome":"done"}' },
  function(body)
    if string.find(body, '"state":"delivered"', 1, true) then
      return string.match(body, '"id":"([^"]+)"'), string.match(body, '"agent":"([^"]+)"')
    end
  end
)

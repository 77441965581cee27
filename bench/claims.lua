-- Claim one task and report success, repeatedly.
local send_pairs = dofile(os.getenv("BENCH_LUA") .. "/request_pairs.lua")

send_pairs(
  { path = "/v1/claims", body = '{}' },
  { path = "/v1/attempts/%s/result", body = '{"status":"success","result":{"ok":1}}' },
  function(body)
    local attempt = string.match(body, '"attempt":{"id":"([^"]+)"')
    if attempt then
      return attempt, string.match(body, '"agent":"([^"]+)"')
    end
  end
)

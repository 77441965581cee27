-- Send one request for each line of BENCH_LINES, "TOKEN PATH BODY", and print the counts as JSON.
local lines = io.lines(os.getenv("BENCH_LINES"))
local headers = { ["Content-Type"] = "application/json" }

request = function()
  local token, path, body = string.match(lines(), "^(%S+) (%S+) (.*)$")
  headers["Authorization"] = "Bearer " .. token
  return wrk.format("POST", path, headers, body)
end

done = dofile(os.getenv("BENCH_LUA") .. "/summary.lua")

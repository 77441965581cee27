-- Request work for each agent of BENCH_LINES ("TOKEN AGENT") in turn and finish each received item:
-- the next free connection sends the second request.
local tokens, names, received = {}, {}, {}
for line in io.lines(os.getenv("BENCH_LINES")) do
  local token, name = string.match(line, "^(%S+) (%S+)$")
  tokens[name] = token
  names[#names + 1] = name
end
local turn = 0
local headers = { ["Content-Type"] = "application/json" }

local function post(name, path, body)
  headers["Authorization"] = "Bearer " .. tokens[name]
  return wrk.format("POST", path, headers, body)
end

-- `ask` and `finish` are { path, body }, with %s for the ID; `parse` returns the ID and agent of the
-- item in a response body, or nothing.
return function(ask, finish, parse)
  request = function()
    local item = table.remove(received)
    if item then
      return post(item.name, string.format(finish.path, item.id), finish.body)
    end
    turn = turn % #names + 1
    return post(names[turn], ask.path, ask.body)
  end

  response = function(_, _, body)
    local id, name = parse(body)
    if id then
      received[#received + 1] = { id = id, name = name }
    end
  end

  done = dofile(os.getenv("BENCH_LUA") .. "/summary.lua")
end

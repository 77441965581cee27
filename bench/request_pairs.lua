-- Asks for work as the agents of BENCH_LINES in turn, each line "TOKEN AGENT", and settles what an
-- answer hands out: that becomes the next request of whoever is free.
local tokens, names, handed = {}, {}, {}
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

-- `ask` and `settle` are { path, body }, the id in the place of %s; `found` returns the id and the
-- agent of what a body hands out, or nothing.
return function(ask, settle, found)
  request = function()
    local one = table.remove(handed)
    if one then
      return post(one.name, string.format(settle.path, one.id), settle.body)
    end
    turn = turn % #names + 1
    return post(names[turn], ask.path, ask.body)
  end

  response = function(_, _, body)
    local id, name = found(body)
    if id then
      handed[#handed + 1] = { id = id, name = name }
    end
  end

  done = dofile(os.getenv("BENCH_LUA") .. "/summary.lua")
end

-- turns.lua follows the prelude in the scripts that take or free a lock. It keeps whose turn it is
-- among the Leashes that wait for the lock (R21). The key of the turns is a string of words. The
-- first word is the ms until which the free lock is reserved for the first Leash, 0 without a
-- reservation. The others are the Leashes that wait, in order: uuid/ms. ms is how long a
-- reservation for that Leash lasts. All FAIR waiters are one entry, "fair/ms".
local TURNS_TTL, RESERVATION, MOST = 60000, 250, 10000

-- nameOf is the name of the Leash in an entry.
local function nameOf(entry) return (string.match(entry, '^[^/]*')) end

-- readTurns reads the key's text: the end of the reservation and the list of entries.
local function readTurns(text)
  local list = {}
  for word in string.gmatch(type(text) == 'string' and text or '', '%S+') do list[#list + 1] = word end
  return tonumber(table.remove(list, 1) or 0) or 0, list
end

-- writeTurns writes the key. It never fails: earlier writes stay, and waiters also retry on their
-- own.
local function writeTurns(key, till, list)
  if #list == 0 then redis.pcall('DEL', key)
  else redis.pcall('SET', key, string.format('%.0f ', till) .. table.concat(list, ' '), 'PX', TURNS_TTL) end
end

-- placeOf is the index of a Leash in the list, nil without one.
local function placeOf(list, leash)
  for i, entry in ipairs(list) do
    if nameOf(entry) == nameOf(leash) then return i end
  end
end

-- reserve reserves the free lock for the first Leash of the list and tells that Leash. It returns
-- how many ms the reservation lasts.
local function reserve(key, list, event)
  local ms = math.min(tonumber((string.match(list[1], '/(%d+)$'))) or RESERVATION, MOST)
  writeTurns(key, nowMillis() + ms, list)
  redis.pcall('PUBLISH', 'leash:' .. nameOf(list[1]), event)
  return ms
end

-- mayTakeTurn decides whether a Leash may take the free lock. text is that of the key. If it may,
-- the result is nil and what the list is after the grant, or nil for no change. Otherwise the
-- result is for how many ms the lock is reserved for another Leash. A Leash that waits is then in
-- the list.
local function mayTakeTurn(key, text, leash, waits, event)
  if not text then return nil end
  local now, till, list = nowMillis(), readTurns(text)
  -- A reservation is over as well when Redis's clock was set back since.
  if till ~= 0 and not (till > now and till <= now + MOST) then
    till = 0
    table.remove(list, 1)
  end
  local place = placeOf(list, leash)
  if #list == 0 or place == 1 then
    table.remove(list, 1)
    return nil, list
  end
  if waits and not place then list[#list + 1] = leash end
  if till == 0 then return reserve(key, list, event) end
  if waits and not place then writeTurns(key, till, list) end
  return till - now
end

-- continueTurn writes the list after a Leash has taken permits in its turn; left are available now.
-- Its turn goes on while somebody waits there whom it lasts for (behind is '1'). Otherwise the next
-- turn begins. With '0' others wait on this Leash.
local function continueTurn(key, list, leash, behind, left, event)
  if behind == '1' then table.insert(list, 1, leash)
  elseif behind == '0' then list[#list + 1] = leash end
  if left > 0 and #list > 0 then reserve(key, list, event) else writeTurns(key, 0, list) end
end

-- awaitTurn puts a Leash that waits for a taken lock into the list. Somebody who knows no turns may
-- have taken the lock in spite of a reservation. The Leash then stays the first.
local function awaitTurn(key, leash)
  local till, list = readTurns(redis.pcall('GET', key))
  local place = placeOf(list, leash)
  if place == 1 and till > 0 then writeTurns(key, 0, list) end
  if place then return end
  list[#list + 1] = leash
  writeTurns(key, till, list)
end

-- mayShare decides whether a Leash may take a lock for reading that others read. Nobody overtakes a
-- Leash that waits. place is that of the request on its own Leash, as in rw_acquire.lua. The result
-- is as in mayTakeTurn; left is how long the lock lasts.
local function mayShare(key, text, leash, place, left)
  local till, list = readTurns(text)
  if #list == 0 or place >= '2' then return nil end
  if place == '1' and placeOf(list, leash) == 1 then
    table.remove(list, 1)
    return nil, list
  end
  if place >= '0' then awaitTurn(key, leash) end
  return left
end

-- tellNext tells the next Leash that others read now, so that its readers can share the lock.
local function tellNext(list, leash, event)
  if list[1] and nameOf(list[1]) ~= nameOf(leash) then redis.pcall('PUBLISH', 'leash:' .. nameOf(list[1]), event) end
end

-- callNext tells that the lock is free. While Leashes wait, it reserves the lock for the first of
-- them. The message then begins with a zero more, which Java clients do not notice. leash is the
-- Leash that has freed the lock. waits says whether its clients wait for the lock.
local function callNext(key, leash, waits, event, channel, modes, word)
  local till, list = readTurns(key and redis.pcall('GET', key))
  local place = placeOf(list, leash)
  if place and not waits then table.remove(list, place) end
  if #list > 0 and waits and not place then list[#list + 1] = leash end
  if #list > 0 then
    reserve(key, list, event)
    return publish(channel, modes, '0' .. (word or '0'))
  end
  if place then writeTurns(key, 0, list) end
  publish(channel, modes, word)
end

-- readTurn reads the list for a hand-over on a Leash. turn.over says that the turn ends now: its
-- waiters have had the lock, and another Leash comes first. turn.next is the list afterwards if the
-- Leash itself comes first and a new turn begins.
local function readTurn(key, leash, served)
  local _, list = readTurns(key and redis.pcall('GET', key))
  local place = placeOf(list, leash)
  local turn = {list = list, others = #list - (place and 1 or 0), over = served and #list > 0 and place ~= 1}
  if served and place == 1 then
    table.remove(list, 1)
    turn.next = list
  end
  return turn
end

-- takeTurn writes the list after the hand-over and returns how many other Leashes wait.
local function takeTurn(key, turn)
  if turn.next then writeTurns(key, 0, turn.next) end
  return turn.others
end

-- putFairFirst makes the FAIR waiters the next that get the lock, if Leashes wait in the list.
local function putFairFirst(key)
  local till, list = readTurns(key and redis.pcall('GET', key))
  if #list == 0 then return end
  local place = placeOf(list, 'fair')
  table.insert(list, 1, place and table.remove(list, place) or 'fair/' .. 2 * RESERVATION)
  writeTurns(key, till, list)
end

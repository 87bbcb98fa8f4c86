-- KEYS[1]: the fence. ARGV[1]: the token; then, if there is more, a command to run, whose keys follow KEYS[1].
-- Numbers in Lua are doubles, exact up to 2^53, and a token has 63 bits: so tokens are compared as texts. Of decimal
-- numbers without leading zeros the longer one is higher, and of equally long ones the one that sorts later.
local function below(a, b)
    return #a < #b or (#a == #b and a < b)
end
local function is_token(text)
    return (text == '0' or string.find(text, '^[1-9]%d*$')) and not below('9223372036854775807', text)
end
local token, seen = ARGV[1], redis.call('GET', KEYS[1]) or '0'
if not is_token(token) or not is_token(seen) then
    return redis.error_reply('ERR not a fencing token: ' .. (is_token(token) and seen or token))
end
if below(token, seen) then
    return redis.error_reply('FENCED token ' .. token .. ' is older than ' .. seen)
end
if token ~= seen then
    redis.call('SET', KEYS[1], token)
end
if #ARGV == 1 then
    return redis.status_reply('OK')
end
return redis.call(unpack(ARGV, 2))

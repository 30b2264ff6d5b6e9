-- | A UTF-8 decoder as it was after it had become incremental, and the test that it passed
-- (O'Sullivan, Testing a UTF-8 decoder with vigour, 2012).
--
-- The decoder is a state machine with two states that a caller sees. Before, any other state than
-- accepting at the end was an error; after, only the rejecting one was, and text that ended within
-- a character was cut without a word.
module OldUtf8
  ( State,
    accept,
    reject,
    run,
    acceptsOld,
    acceptsRefactored,
    poorTest,
  )
where

import Data.Bits (unsafeShiftL, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.Word (Word8)
import Test.QuickCheck (Gen, arbitrary)

-- | How many bytes are missing, what they made so far, and the least that they have to make.
data State = State !Int !Int !Int
  deriving stock (Eq)

-- | UTF8_ACCEPT and UTF8_REJECT.
accept, reject :: State
accept = State 0 0 0
reject = State (-1) 0 0

-- | To the end, or to the first byte that is rejected.
run :: ByteString -> State
run = go accept
  where
    go state text = case ByteString.uncons text of
      Just (b, rest) | state /= reject -> go (next state b) rest
      _ -> state

next :: State -> Word8 -> State
next (State missing code least) b
  | missing == 0 = begin
  | b < 0x80 || b >= 0xc0 = reject
  | missing > 1 = State (missing - 1) sum_ least
  | sum_ < least || sum_ > 0x10ffff || (sum_ >= 0xd800 && sum_ < 0xe000) = reject
  | otherwise = accept
  where
    sum_ = code `unsafeShiftL` 6 .|. fromIntegral b .&. 0x3f
    bits n = fromIntegral b .&. n
    begin
      | b < 0x80 = accept
      | b < 0xc2 || b > 0xf4 = reject
      | b < 0xe0 = State 1 (bits 0x1f) 0x80
      | b < 0xf0 = State 2 (bits 0xf) 0x800
      | otherwise = State 3 (bits 7) 0x10000

-- | @if (state != UTF8_ACCEPT) s -= 1;@: all that is not whole is an error.
acceptsOld :: ByteString -> Bool
acceptsOld text = run text == accept

-- | @if (state == UTF8_REJECT) s -= 1;@: the same, but for what the end cuts off.
acceptsRefactored :: ByteString -> Bool
acceptsRefactored text = run text /= reject

-- | "This is a poor attempt to ensure that the error handling paths on decode are exercised in
-- some way": any bytes.
poorTest :: Gen ByteString
poorTest = ByteString.pack <$> arbitrary

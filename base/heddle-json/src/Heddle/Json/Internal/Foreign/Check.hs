-- |
-- Module      : Heddle.Json.Internal.Foreign.Check
-- Description : The calls of heddle_json_check.h and heddle_json_format.h
-- Stability   : internal; exempt from the version policy
--
-- Cost: about 3 ns a call, nothing is allocated; per byte see each. The calls hold the capability, so texts and room
-- are 'largestPiece' bytes at most.
-- Owner: the memory is the caller's.
module Heddle.Json.Internal.Foreign.Check
  ( largestPiece,
    heddleJsonCheck,
    heddleJsonCheckEnd,
    heddleJsonPlace,
    heddleJsonFormat,
    heddleJsonFormatEnd,
  )
where

import Data.Word (Word8)
import Foreign.C.Types (CInt (..))
import Foreign.Ptr (Ptr)

-- | How many bytes one call gets at most: 32 KiB, some 20 µs.
largestPiece :: Int
largestPiece = 32768

-- | Level, automaton, text, its length: what happened (@enum heddle_json_answer@).
--
-- [Cost]: 0.3 to 1 ns for each byte.
heddleJsonCheck :: CInt -> Ptr Word8 -> Ptr Word8 -> Int -> IO CInt
heddleJsonCheck = c_check

-- | Automaton: whether the text may end here.
heddleJsonCheckEnd :: Ptr Word8 -> IO CInt
heddleJsonCheckEnd = c_check_end

-- | Level, two words (newlines, characters behind the last), text, its length.
--
-- [Cost]: 64 bytes in some 3 ns.
heddleJsonPlace :: CInt -> Ptr Word8 -> Ptr Word8 -> Int -> IO ()
heddleJsonPlace = c_place

-- | Level, layout, text, its length, output, room: how many bytes of the text were taken.
--
-- [Cost]: less than checking.
heddleJsonFormat :: CInt -> Ptr Word8 -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO Int
heddleJsonFormat = c_format

-- | Layout: the text ends here.
heddleJsonFormatEnd :: Ptr Word8 -> IO ()
heddleJsonFormatEnd = c_format_end

-- Unsafe: passes over the caller's bytes once, without a system call.
foreign import ccall unsafe "heddle_json_check" c_check :: CInt -> Ptr Word8 -> Ptr Word8 -> Int -> IO CInt

-- Unsafe: looks at a few fields.
foreign import ccall unsafe "heddle_json_check_end" c_check_end :: Ptr Word8 -> IO CInt

-- Unsafe: passes over the caller's bytes once, without a system call.
foreign import ccall unsafe "heddle_json_place" c_place :: CInt -> Ptr Word8 -> Ptr Word8 -> Int -> IO ()

-- Unsafe: passes over the caller's bytes once, without a system call.
foreign import ccall unsafe "heddle_json_format" c_format :: CInt -> Ptr Word8 -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO Int

-- Unsafe: looks at a few fields.
foreign import ccall unsafe "heddle_json_format_end" c_format_end :: Ptr Word8 -> IO ()

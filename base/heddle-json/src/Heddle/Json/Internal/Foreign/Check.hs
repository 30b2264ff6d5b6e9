-- |
-- Module      : Heddle.Json.Internal.Foreign.Check
-- Description : The calls of heddle_json_check.h and heddle_json_format.h
-- Stability   : internal; exempt from the version policy
--
-- Cost: about 3 ns a call, no allocation; each function gives its cost per byte. A call holds the capability, so
-- texts and output have at most 'largestPiece' bytes.
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

-- | The most bytes of one call: 32 KiB, some 20 µs.
largestPiece :: Int
largestPiece = 32768

-- | Level, automaton, text, its length. Returns an @enum heddle_json_answer@.
--
-- [Cost]: 0.3 to 1 ns for each byte.
heddleJsonCheck :: CInt -> Ptr Word8 -> Ptr Word8 -> Int -> IO CInt
heddleJsonCheck = c_check

-- | Automaton. Returns whether the text may end here.
heddleJsonCheckEnd :: Ptr Word8 -> IO CInt
heddleJsonCheckEnd = c_check_end

-- | Level, two words (newlines, and characters after the last one), text, its length.
--
-- [Cost]: 64 bytes in some 3 ns.
heddleJsonPlace :: CInt -> Ptr Word8 -> Ptr Word8 -> Int -> IO ()
heddleJsonPlace = c_place

-- | Level, layout, text, its length, output, its size. Returns how many bytes of the text were taken.
--
-- [Cost]: less than checking.
heddleJsonFormat :: CInt -> Ptr Word8 -> Ptr Word8 -> Int -> Ptr Word8 -> Int -> IO Int
heddleJsonFormat = c_format

-- | Layout. The text ends here.
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

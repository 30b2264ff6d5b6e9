-- |
-- Module      : Heddle.Bytes.Search.Block
-- Description : Byte search over raw blocks
-- Stability   : stable
--
-- The kernels of "Heddle.Bytes.Search" over an address and a length, for programs that own
-- their buffers: nothing is allocated, and a whole block of lines is searched in one call.
-- Offsets count from the address; -1 means that there is none.
--
-- > -- Where the last whole line of a buffer ends.
-- > wholeLines :: Ptr Word8 -> Int -> IO Int
-- > wholeLines buffer filled = (+ 1) <$> findByteEndAt bestLevel buffer filled 0x0a
--
-- The caller keeps a block in garbage-collected memory alive until the call returns (@withForeignPtr@,
-- @unsafeUseAsCStringLen@). Nothing keeps the address after that.
--
-- Cost: a call takes 3 to 20 ns and allocates nothing; per byte see each kernel. The calls
-- are unsafe foreign calls, which hold the capability and delay garbage collection, so a
-- block should not exceed 'largestBlock'.
-- Owner: the block is the caller's, and must not change during the call.
module Heddle.Bytes.Search.Block
  ( -- * Levels

    -- | Each kernel exists in plain C and once for each vector extension. All give the same
    -- answers: programs use 'bestLevel', tests and measurements use each of 'levels'.
    Level,
    bestLevel,
    levels,

    -- * Blocks
    largestBlock,

    -- * Bytes
    findByteAt,
    findByteEndAt,
    countByteAt,
    nthByteAt,
    bytePlacesAt,

    -- * Literals

    -- | 'Heddle.Bytes.Search.newNeedle' prepares a literal for the best level.
    newNeedleAt,
    newNeedlesAt,
    findNeedleAt,

    -- * Lines

    -- | A block begins at a line's start; a line ends before its newline, or at the block's
    -- end. A literal that contains a newline is in no line, the empty one is in each.
    countLinesAt,
    Lines,
    newLines,
    linesCapacity,
    nextLinesAt,
    lineStart,
    lineEnd,
    linesSkipped,
  )
where

import Heddle.Bytes.Internal.Needle
import Heddle.Bytes.Internal.Search

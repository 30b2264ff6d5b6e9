{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.WebSocket.Codec
-- Description : Frames, masks, keys and compression, without a connection
-- Stability   : stable
--
-- For tools and tests: the pieces that "Heddle.WebSocket" is made of.
--
-- Cost: beside each function.
-- Owner: values; the caller's memory.
module Heddle.WebSocket.Codec
  ( -- * Heads of frames
    pattern OpContinuation,
    pattern OpText,
    pattern OpBinary,
    pattern OpClose,
    pattern OpPing,
    pattern OpPong,
    pattern FinalBit,
    pattern DeflateBit,
    opcodeOf,
    Expecting (..),
    FrameHead (..),
    readHead,
    headRoom,
    headSize,
    pokeHead,

    -- * Payloads
    maskBytes,
    maskBytesAt,
    rotateKey,
    closePayload,
    closeBytes,

    -- * Compression
    Deflating (..),
    deflateMessage,
    inflateMessage,
    flateCount,

    -- * Handshakes
    acceptFor,
    Asked (..),
    Accepted (..),
    Refusal (..),
    judgeRequest,
    Response (..),
    parseResponse,
    judgeResponse,
    requestHead,
  )
where

import Heddle.WebSocket.Deflate
import Heddle.WebSocket.Flate (flateCount)
import Heddle.WebSocket.Frame
import Heddle.WebSocket.Handshake
import Heddle.WebSocket.Mask

{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Gateway.FastCgi.Record
-- Description : The records of FastCGI
-- Stability   : stable
--
-- What FastCGI sends in either direction: records of at most 65,535 bytes, each with a type and the number of a request.
-- Web servers ("Heddle.Gateway.FastCgi") and applications (heddle-wai's @runFastCgi@) both use it.
--
-- Law (@once@): what 'renderRecord' and 'renderPairs' write, 'takeRecord' and 'readPairs' read.
--
-- Cost: reading copies nothing; writing copies what it is given.
-- Owner: values.
-- [Source]: FastCGI specification 1.0, sections 3 to 5 and 8.
module Heddle.Gateway.FastCgi.Record
  ( -- * Records
    Record (..),
    RecordType (..),
    pattern BeginRequest,
    pattern AbortRequest,
    pattern EndRequest,
    pattern Params,
    pattern Stdin,
    pattern Stdout,
    pattern Stderr,
    pattern Data,
    pattern GetValues,
    pattern GetValuesResult,
    pattern UnknownType,
    takeRecord,
    Taken (..),
    renderRecord,
    renderStream,
    renderEnd,
    largestRecord,

    -- * What is in them

    -- ** The beginning of a request
    Role (..),
    pattern Responder,
    pattern Authorizer,
    pattern Filter,
    renderBegin,
    readBegin,

    -- ** The end of a request
    ProtocolStatus (..),
    pattern RequestComplete,
    pattern CannotMultiplex,
    pattern Overloaded,
    pattern UnknownRole,
    renderEndRequest,
    readEndRequest,

    -- ** Management
    renderUnknownType,

    -- ** Names and values
    renderPairs,
    readPairs,
  )
where

import Data.Bits (shiftL, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (Builder, byteString, word16BE, word32BE, word8)
import Data.ByteString.Unsafe qualified as B (unsafeIndex)
import Data.Word (Word8)

-- | A record.
data Record = Record
  { recordType :: !RecordType,
    -- | 0 for what concerns no request.
    recordRequest :: !Int,
    recordContent :: !ByteString
  }
  deriving stock (Eq, Show)

-- | What a record is.
newtype RecordType = RecordType Word8
  deriving stock (Eq, Ord, Show)

-- | Section 8 of the specification lists the types.
pattern BeginRequest, AbortRequest, EndRequest, Params, Stdin, Stdout, Stderr, Data, GetValues, GetValuesResult, UnknownType :: RecordType
pattern BeginRequest = RecordType 1
pattern AbortRequest = RecordType 2
pattern EndRequest = RecordType 3
pattern Params = RecordType 4
pattern Stdin = RecordType 5
pattern Stdout = RecordType 6
pattern Stderr = RecordType 7
pattern Data = RecordType 8
pattern GetValues = RecordType 9
pattern GetValuesResult = RecordType 10
pattern UnknownType = RecordType 11

-- | The most bytes in a record.
largestRecord :: Int
largestRecord = 65535

-- | What stands at the beginning of bytes.
data Taken
  = -- | A record, and what follows it.
    Taken !Record !ByteString
  | -- | Fewer bytes than a record has.
    TakeMore
  | -- | Another version of the protocol, or another protocol.
    NotFastCgi
  deriving stock (Eq, Show)

-- | The first record.
--
-- [Cost]: O(1); the content is a part of the bytes.
takeRecord :: ByteString -> Taken
takeRecord bytes
  | B.length bytes >= 1 && at 0 /= 1 = NotFastCgi
  | B.length bytes < 8 || B.length bytes < 8 + content + padding = TakeMore
  | otherwise = Taken (Record (RecordType (at 1)) (word 2) (B.take content (B.drop 8 bytes))) (B.drop (8 + content + padding) bytes)
  where
    at = B.unsafeIndex bytes
    word i = fromIntegral (at i) `shiftL` 8 .|. fromIntegral (at (i + 1)) :: Int
    content = word 4
    padding = fromIntegral (at 6)

-- | A record of at most 'largestRecord' bytes; more are cut off.
--
-- [Cost]: a copy.
renderRecord :: RecordType -> Int -> ByteString -> Builder
renderRecord (RecordType kind) request given =
  word8 1 <> word8 kind <> word16BE (fromIntegral request) <> word16BE (fromIntegral (B.length content)) <> word16BE 0 <> byteString content
  where
    content = B.take largestRecord given

-- | Bytes of a stream in as many records as they need; none for no bytes, since an empty record is a stream's end.
renderStream :: RecordType -> Int -> ByteString -> Builder
renderStream kind request bytes
  | B.null bytes = mempty
  | otherwise = renderRecord kind request piece <> renderStream kind request rest
  where
    -- A multiple of eight, as the specification likes records.
    (piece, rest) = B.splitAt 65528 bytes

-- | The end of a stream.
renderEnd :: RecordType -> Int -> Builder
renderEnd kind request = renderRecord kind request B.empty

-- | What the application is to do.
newtype Role = Role Int
  deriving stock (Eq, Ord, Show)

-- | Answer; say whether a client may; answer from a file that is sent along.
pattern Responder, Authorizer, Filter :: Role
pattern Responder = Role 1
pattern Authorizer = Role 2
pattern Filter = Role 3

-- | The record that begins a request; whether the connection is kept afterwards.
renderBegin :: Int -> Role -> Bool -> Builder
renderBegin request (Role role) keep =
  word8 1 <> word8 1 <> word16BE (fromIntegral request) <> word16BE 8 <> word16BE 0 <> word16BE (fromIntegral role) <> word8 (if keep then 1 else 0) <> byteString (B.replicate 5 0)

-- | The content of a 'BeginRequest'.
readBegin :: ByteString -> Maybe (Role, Bool)
readBegin content
  | B.length content == 8 = Just (Role (fromIntegral (B.index content 0) `shiftL` 8 .|. fromIntegral (B.index content 1)), B.index content 2 .&. 1 == 1)
  | otherwise = Nothing

-- | How the protocol ended a request.
newtype ProtocolStatus = ProtocolStatus Word8
  deriving stock (Eq, Ord, Show)

-- | Answered; refused, because there is one already; because there are too many; because the role is not known.
pattern RequestComplete, CannotMultiplex, Overloaded, UnknownRole :: ProtocolStatus
pattern RequestComplete = ProtocolStatus 0
pattern CannotMultiplex = ProtocolStatus 1
pattern Overloaded = ProtocolStatus 2
pattern UnknownRole = ProtocolStatus 3

-- | The record that ends a request: the application's exit code, and the protocol's word.
renderEndRequest :: Int -> Int -> ProtocolStatus -> Builder
renderEndRequest request code (ProtocolStatus status) =
  word8 1 <> word8 3 <> word16BE (fromIntegral request) <> word16BE 8 <> word16BE 0 <> word32BE (fromIntegral code) <> word8 status <> byteString (B.replicate 3 0)

-- | The content of an 'EndRequest'.
readEndRequest :: ByteString -> Maybe (Int, ProtocolStatus)
readEndRequest content
  | B.length content == 8 = Just (B.foldl' (\n b -> n `shiftL` 8 .|. fromIntegral b) 0 (B.take 4 content), ProtocolStatus (B.index content 4))
  | otherwise = Nothing

-- | The answer to a record of a type that is not known, with request 0.
renderUnknownType :: RecordType -> Builder
renderUnknownType (RecordType kind) = renderRecord UnknownType 0 (B.cons kind (B.replicate 7 0))

-- | Names and values, as in 'Params' and 'GetValues'.
--
-- [Cost]: a copy.
renderPairs :: [(ByteString, ByteString)] -> Builder
renderPairs = foldMap (\(n, v) -> size (B.length n) <> size (B.length v) <> byteString n <> byteString v)
  where
    size n
      | n < 128 = word8 (fromIntegral n)
      | otherwise = word32BE (fromIntegral n .|. 0x80000000)

-- | 'Nothing' if the last pair is not whole.
--
-- [Cost]: O(pairs); names and values are parts of the bytes.
readPairs :: ByteString -> Maybe [(ByteString, ByteString)]
readPairs = go []
  where
    go pairs bytes
      | B.null bytes = Just (reverse pairs)
      | otherwise = do
        (n, afterName) <- size bytes
        (v, rest) <- size afterName
        if n + v > B.length rest
          then Nothing
          else go ((B.take n rest, B.take v (B.drop n rest)) : pairs) (B.drop (n + v) rest)
    size bytes = case B.uncons bytes of
      Nothing -> Nothing
      Just (b, rest)
        | b < 128 -> Just (fromIntegral b, rest)
        | B.length rest < 3 -> Nothing
        | otherwise -> Just (B.foldl' (\n c -> n `shiftL` 8 .|. fromIntegral c) (fromIntegral (b .&. 0x7F)) (B.take 3 rest) :: Int, B.drop 3 rest)

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
    renderOpening,
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

import Control.Monad (foldM, void, when)
import Data.Bits (shiftL, shiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder (Builder, byteString, toLazyByteString, word16BE, word32BE, word8)
import Data.ByteString.Internal qualified as B (unsafeCreate)
import Data.ByteString.Lazy qualified as L
import Data.ByteString.Unsafe qualified as B (unsafeIndex, unsafeUseAsCStringLen)
import Data.List (foldl')
import Data.Word (Word8)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Foreign.Storable (poke)

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

-- | The records with which a request begins: 'renderBegin', its variables and their end and, if it has no body, the end of 'Stdin'.
--
-- Law (@openings@): the bytes are those of the single records.
--
-- [Cost]: one copy, unless the variables take more than one record.
renderOpening :: Int -> Role -> Bool -> [(ByteString, ByteString)] -> Bool -> ByteString
renderOpening request role@(Role number) keep pairs bodiless
  | size == 0 || size > 65528 = L.toStrict (toLazyByteString (renderBegin request role keep <> renderStream Params request (L.toStrict (toLazyByteString (renderPairs pairs))) <> renderEnd Params request <> (if bodiless then renderEnd Stdin request else mempty)))
  | otherwise = B.unsafeCreate (16 + 8 + size + 8 + (if bodiless then 8 else 0)) $ \p0 -> do
    p1 <- start BeginRequest 8 p0 >>= word number >>= byte (if keep then 1 else 0)
    _ <- fillBytes p1 0 5
    p2 <- start Params size (p1 `plusPtr` 5) >>= (\p -> foldM pair p pairs) >>= start Params 0
    when bodiless (void (start Stdin 0 p2))
  where
    size = foldl' (\n (name, value) -> n + sized (B.length name) + sized (B.length value)) 0 pairs
    sized n = if n < 128 then n + 1 else n + 4
    start :: RecordType -> Int -> Ptr Word8 -> IO (Ptr Word8)
    start (RecordType kind) n p = byte 1 p >>= byte kind >>= word request >>= word n >>= word 0
    byte :: Word8 -> Ptr Word8 -> IO (Ptr Word8)
    byte b p = (p `plusPtr` 1) <$ poke p b
    word :: Int -> Ptr Word8 -> IO (Ptr Word8)
    word n p = byte (fromIntegral (n `shiftR` 8)) p >>= byte (fromIntegral n)
    pair p (name, value) = len (B.length name) p >>= len (B.length value) >>= bytes name >>= bytes value
    len n p
      | n < 128 = byte (fromIntegral n) p
      | otherwise = word (n `shiftR` 16 .|. 0x8000) p >>= word n
    bytes given p = B.unsafeUseAsCStringLen given $ \(from, n) -> (p `plusPtr` n) <$ copyBytes p (castPtr from) n

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

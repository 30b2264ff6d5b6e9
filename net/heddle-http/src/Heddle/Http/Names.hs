{-# LANGUAGE MagicHash #-}
{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE PatternSynonyms #-}
{-# LANGUAGE UnboxedTuples #-}

-- |
-- Module      : Heddle.Http.Names
-- Description : Known methods and header names, and how they are recognised
-- Stability   : internal, exempt from the version policy
--
-- Small numbers for the names that a server asks about. They are recognised
-- once, while parsing; afterwards a name is found by its number.
--
-- Everything here runs on any thread, never blocks and throws nothing.
module Heddle.Http.Names
  ( -- * Methods
    MethodCode
      ( MethodCode,
        MethodOther,
        MethodGet,
        MethodHead,
        MethodPost,
        MethodPut,
        MethodDelete,
        MethodConnect,
        MethodOptions,
        MethodTrace,
        MethodPatch
      ),
    methodName,
    recogniseMethod,

    -- * Known headers
    KnownHeader (..),
    knownHeaderName,
    knownHeaders,
    knownTotal,
    recogniseHeader,
  )
where

import Data.Bits (unsafeShiftL, unsafeShiftR, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (isUpper, toLower)
import Data.Foldable (for_)
import Data.Primitive.ByteArray
  ( ByteArray,
    indexByteArray,
    newByteArray,
    readByteArray,
    runByteArray,
    setByteArray,
    writeByteArray,
  )
import Data.Word (Word64, Word8)
import Foreign.Ptr (Ptr)
import Heddle.Http.Scan (Unboxed, boxed, byteAt, unboxed, word64At)

-- | A request method. A method that is not in the list is 'MethodOther'; its
-- spelling is in 'Heddle.Http.Head.methodSlice'.
--
-- [Source]: RFC 9110, section 9; RFC 5789.
newtype MethodCode = MethodCode Int
  deriving stock (Eq, Ord)

instance Show MethodCode where
  showsPrec d method
    | method == MethodOther = showString "MethodOther"
    | otherwise = showsPrec d (methodName method)

-- | Any method without a code.
pattern MethodOther :: MethodCode
pattern MethodOther = MethodCode 0

-- | @GET@.
pattern MethodGet :: MethodCode
pattern MethodGet = MethodCode 1

-- | @HEAD@.
pattern MethodHead :: MethodCode
pattern MethodHead = MethodCode 2

-- | @POST@.
pattern MethodPost :: MethodCode
pattern MethodPost = MethodCode 3

-- | @PUT@.
pattern MethodPut :: MethodCode
pattern MethodPut = MethodCode 4

-- | @DELETE@.
pattern MethodDelete :: MethodCode
pattern MethodDelete = MethodCode 5

-- | @CONNECT@.
pattern MethodConnect :: MethodCode
pattern MethodConnect = MethodCode 6

-- | @OPTIONS@.
pattern MethodOptions :: MethodCode
pattern MethodOptions = MethodCode 7

-- | @TRACE@.
pattern MethodTrace :: MethodCode
pattern MethodTrace = MethodCode 8

-- | @PATCH@.
pattern MethodPatch :: MethodCode
pattern MethodPatch = MethodCode 9

-- | The spelling of a method; empty for 'MethodOther'.
--
-- [Cost]: O(1); the result is shared.
methodName :: MethodCode -> ByteString
methodName = \case
  MethodGet -> "GET"
  MethodHead -> "HEAD"
  MethodPost -> "POST"
  MethodPut -> "PUT"
  MethodDelete -> "DELETE"
  MethodConnect -> "CONNECT"
  MethodOptions -> "OPTIONS"
  MethodTrace -> "TRACE"
  MethodPatch -> "PATCH"
  _ -> ""

-- | The code of a method, from its spelling; methods are case-sensitive.
--
-- [Cost]: O(1).
recogniseMethod :: Ptr Word8 -> Int -> Int -> Int -> IO MethodCode
recogniseMethod buffer offset len end = MethodCode <$> boxed (recogniseMethod# buffer offset len end)
{-# INLINE recogniseMethod #-}

recogniseMethod# :: Ptr Word8 -> Int -> Int -> Int -> Unboxed
recogniseMethod# !buffer !offset !len !end
  | len > 7 = unboxed (pure 0)
  | otherwise = unboxed $ do
    w <- prefixAt buffer offset len end
    case methodOf w of MethodCode code -> pure code
  where
    methodOf :: Word64 -> MethodCode
    methodOf = \case
      0x544547 -> MethodGet
      0x44414548 -> MethodHead
      0x54534f50 -> MethodPost
      0x545550 -> MethodPut
      0x4554454c4544 -> MethodDelete
      0x5443454e4e4f43 -> MethodConnect
      0x534e4f4954504f -> MethodOptions
      0x4543415254 -> MethodTrace
      0x4843544150 -> MethodPatch
      _ -> MethodOther

-- | A header name that the parser recognises.
--
-- This list is the table of known names: 'knownHeaderName' spells a name as its constructor
-- does, with a hyphen before each further capital letter, and the recogniser is made from
-- those. Adding a name is adding a constructor; each costs four bytes in every
-- 'Heddle.Http.Head.HeadTable'.
data KnownHeader
  = -- The connection and the framing of messages.
    HeaderHost
  | HeaderConnection
  | HeaderContentLength
  | HeaderTransferEncoding
  | HeaderExpect
  | HeaderUpgrade
  | HeaderTe
  | HeaderTrailer
  | HeaderKeepAlive
  | HeaderProxyConnection
  | HeaderVia
  | -- Conditions and ranges.
    HeaderIfMatch
  | HeaderIfNoneMatch
  | HeaderIfModifiedSince
  | HeaderIfUnmodifiedSince
  | HeaderIfRange
  | HeaderRange
  | -- The client, and what it accepts.
    HeaderUserAgent
  | HeaderReferer
  | HeaderAccept
  | HeaderAcceptEncoding
  | HeaderAcceptLanguage
  | HeaderAcceptCharset
  | -- Content.
    HeaderContentType
  | HeaderContentEncoding
  | HeaderContentLanguage
  | HeaderContentLocation
  | -- Who asks.
    HeaderCookie
  | HeaderAuthorization
  | HeaderProxyAuthorization
  | -- What a proxy adds.
    HeaderXForwardedFor
  | HeaderXForwardedProto
  | HeaderXForwardedHost
  | HeaderXRealIp
  | HeaderXRequestId
  | HeaderXRequestedWith
  | HeaderForwarded
  | -- Caching, preferences and the rest.
    HeaderOrigin
  | HeaderCacheControl
  | HeaderPragma
  | HeaderDate
  | HeaderFrom
  | HeaderMaxForwards
  | HeaderPrefer
  | HeaderPriority
  | HeaderPurpose
  | HeaderDnt
  | HeaderSaveData
  | -- What browsers add.
    HeaderUpgradeInsecureRequests
  | HeaderSecFetchSite
  | HeaderSecFetchMode
  | HeaderSecFetchUser
  | HeaderSecFetchDest
  | HeaderSecChUa
  | HeaderSecChUaMobile
  | HeaderSecChUaPlatform
  | HeaderSecWebsocketKey
  | HeaderSecWebsocketVersion
  | HeaderSecWebsocketProtocol
  | HeaderSecWebsocketExtensions
  | HeaderAccessControlRequestMethod
  | HeaderAccessControlRequestHeaders
  | HeaderTraceparent
  | -- Of responses.
    HeaderServer
  | HeaderLocation
  | HeaderSetCookie
  | HeaderEtag
  | HeaderLastModified
  | HeaderAcceptRanges
  deriving stock (Bounded, Enum, Eq, Ord, Show)

-- | The name, in lower case.
--
-- >>> knownHeaderName HeaderIfNoneMatch
-- "if-none-match"
--
-- [Cost]: O(length); allocates it.
knownHeaderName :: KnownHeader -> ByteString
knownHeaderName known = C.pack (drop 1 (concatMap spell (drop (length ("Header" :: String)) (show known))))
  where
    spell letter
      | isUpper letter = ['-', toLower letter]
      | otherwise = [letter]

-- | Every known header.
--
-- [Cost]: O(1) each.
knownHeaders :: [KnownHeader]
knownHeaders = [minBound .. maxBound]

-- | The number of known headers; the code of each, its 'fromEnum', is below it.
--
-- [Cost]: none.
knownTotal :: Int
knownTotal = fromEnum (maxBound :: KnownHeader) + 1

-- | The code of a header name, or -1. Precondition: no byte of the name is a
-- control character, and the name ends before the given end of the buffer.
--
-- [Cost]: O(1). A known name is thereby also known to be a token; see Note
-- [Recognising a name].
recogniseHeader :: Ptr Word8 -> Int -> Int -> Int -> IO Int
recogniseHeader buffer offset len end = boxed (recogniseHeader# buffer offset len end)
{-# INLINE recogniseHeader #-}

recogniseHeader# :: Ptr Word8 -> Int -> Int -> Int -> Unboxed
recogniseHeader# !buffer !offset !len !end
  | len <= 8 = unboxed $ do
    first <- prefixAt buffer offset len end
    let !folded = (first .|. blanks) .&. mask len
    pure $! knownCode len folded folded 0 0
  | len <= 16 = unboxed $ do
    first <- word64At buffer offset
    final <- word64At buffer (offset + len - 8)
    pure $! knownCode len (first .|. blanks) (final .|. blanks) 0 0
  | len <= 32 = unboxed $ do
    first <- word64At buffer offset
    second <- word64At buffer (offset + 8)
    -- Up to 24 bytes, the third eight are the last eight.
    third <- word64At buffer (offset + min 16 (len - 8))
    final <- word64At buffer (offset + len - 8)
    pure $! knownCode len (first .|. blanks) (final .|. blanks) (second .|. blanks) (third .|. blanks)
  | otherwise = unboxed (pure (-1))
{-# NOINLINE recogniseHeader# #-}

-- | Look up a name in lower case by its length and its first, last, second and
-- third eight bytes; the latter two are 0 up to a length of 16.
knownCode :: Int -> Word64 -> Word64 -> Word64 -> Word64 -> Int
knownCode !len !first !final !second !third = go (hashName len first final)
  where
    go !slot
      | stored == 0 = -1
      | stored == fromIntegral len,
        at 1 == first,
        at 2 == final,
        at 3 == second,
        at 4 == third =
        fromIntegral (at 5)
      | otherwise = go ((slot + 1) .&. (slotCount - 1))
      where
        stored = at 0
        at k = indexByteArray knownTable (slot * 6 + k) :: Word64

-- | Up to eight bytes, the first one lowest and zeros above the last, without
-- reading at or beyond the end of the buffer.
prefixAt :: Ptr Word8 -> Int -> Int -> Int -> IO Word64
prefixAt !buffer !offset !len !end
  | offset + 8 <= end = (.&. mask len) <$> word64At buffer offset
  | otherwise = go 0 0
  where
    go !i !acc
      | i >= len = pure acc
      | otherwise = do
        byte <- byteAt buffer (offset + i)
        go (i + 1) (acc .|. (fromIntegral byte `unsafeShiftL` (8 * i)))
{-# INLINE prefixAt #-}

-- | Ones in this many low bytes, at most eight.
mask :: Int -> Word64
mask len
  | len <= 0 = 0
  | otherwise = maxBound `unsafeShiftR` (64 - 8 * len)
{-# INLINE mask #-}

-- | Sets the bit that differs between an upper-case letter and a lower-case one. It also maps CR to
-- the hyphen and 0x10 to 0x19 to digits, which is safe because no name contains them: the
-- parser ends a name at the first control character ('Heddle.Http.Scan.nameEnd'). See Note
-- [Recognising a name] and the test controlBytesFoldOntoKnownNames.
blanks :: Word64
blanks = 0x2020202020202020

hashName :: Int -> Word64 -> Word64 -> Int
hashName len first final =
  fromIntegral (((first + 31 * final + fromIntegral len) * 0x9E3779B97F4A7C15) `unsafeShiftR` 56)
{-# INLINE hashName #-}

slotCount :: Int
slotCount = 256

-- | The hash table of the known names: per slot the length, or 0 when free, the
-- first and last eight bytes, the second and third eight where the length has
-- them, and the code.
knownTable :: ByteArray
knownTable = runByteArray $ do
  array <- newByteArray (slotCount * 6 * 8)
  setByteArray array 0 (slotCount * 6) (0 :: Word64)
  for_ knownHeaders $ \known -> do
    let name = knownHeaderName known
        code = fromIntegral (fromEnum known)
        len = B.length name
        first = pack (B.take 8 name)
        final = pack (B.drop (len - 8) name)
        second = if len > 16 then pack (B.take 8 (B.drop 8 name)) else 0
        third = if len > 16 then pack (B.take 8 (B.drop (min 16 (len - 8)) name)) else 0
        place slot = do
          stored <- readByteArray array (slot * 6)
          if stored /= (0 :: Word64)
            then place ((slot + 1) .&. (slotCount - 1))
            else for_ (zip [0 ..] [fromIntegral len, first, final, second, third, code]) $
              \(k, w) -> writeByteArray array (slot * 6 + k) (w :: Word64)
    place (hashName len first final)
  pure array
  where
    pack = B.foldr (\byte acc -> (acc `unsafeShiftL` 8) .|. fromIntegral byte) 0
{-# NOINLINE knownTable #-}

-- Note [Recognising a name]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~
-- Names are compared eight bytes at a time after setting bit 5 of each byte. That
-- maps upper-case letters to lower-case ones; the only other bytes that it maps to
-- a letter, a digit or a hyphen are control characters (CR to the hyphen, 0x10 to
-- 0x19 to digits), and the parser has excluded those. So equality after the
-- mapping is equality without regard to case, and a name equal to a known one
-- needs no further check that it is a token.

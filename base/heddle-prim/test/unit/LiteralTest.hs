-- Rules apply with optimisation only.
{-# OPTIONS_GHC -O #-}

-- | What becomes of string literals.
module LiteralTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder qualified as Builder
import Data.ByteString.Lazy qualified as Lazy
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Foreign.Storable (peekByteOff)
import Heddle.Prim.Literal
import Heddle.Prim.Unsafe (unsafePure)
import Heddle.Testkit.Judging (whenOptimised)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck

-- | Which method was called, and with what.
data Called = Ascii [Word8] | ModifiedUtf8 [Word8] | Characters String
  deriving stock (Eq, Show)

instance FromLiteral Called where
  fromAscii p = Ascii (bytesAt p)
  fromModifiedUtf8 p = ModifiedUtf8 (bytesAt p)
  fromCharacters = Characters

bytesAt :: Ptr Word8 -> [Word8]
bytesAt p = unsafePure (mapM (peekByteOff p) [0 .. literalLength p - 1])

tests :: TestTree
tests =
  testGroup
    "literals"
    [ whenOptimised . testCase "a literal of ASCII is its bytes" $ literal "abc~" @?= Ascii [0x61, 0x62, 0x63, 0x7e],
      whenOptimised . testCase "another is GHC's UTF-8" $ do
        literal "\955x" @?= ModifiedUtf8 [0xce, 0xbb, 0x78]
        literal "a\0" @?= ModifiedUtf8 [0x61, 0xc0, 0x80]
        literal "\xd800" @?= ModifiedUtf8 [0xed, 0xa0, 0x80],
      testProperty "what is no literal is its characters" $ \text -> literal text === Characters text,
      testCase "bytes: ASCII, several bytes, NUL, surrogates" $ do
        literal "" @?= B.empty
        literal "abc" @?= B.pack [0x61, 0x62, 0x63]
        literal "\955x" @?= B.pack [0xce, 0xbb, 0x78]
        literal "a\0b\128512" @?= B.pack [0x61, 0, 0x62, 0xf0, 0x9f, 0x98, 0x80]
        literal "<\xd7ff\xd800\xdfff\xe000>" @?= B.pack [0x3c, 0xed, 0x9f, 0xbf, 0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd, 0xee, 0x80, 0x80, 0x3e],
      testProperty "bytes: the same without a literal" $ \text ->
        (literal text :: ByteString) === Lazy.toStrict (Builder.toLazyByteString (Builder.stringUtf8 (map scalar text)))
    ]
  where
    scalar c = if c >= '\xd800' && c < '\xe000' then '\xfffd' else c

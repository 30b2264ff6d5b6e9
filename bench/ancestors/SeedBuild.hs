{-# LANGUAGE OverloadedStrings #-}

-- | The encoding API as the blog has it: Bryan O'Sullivan, "Open question: help me design a new encoding API for
-- aeson". As printed, with these differences: the infix declaration, the operator and the instances that the post
-- leaves to its gist (@IsString@, and @Semigroup@, which 'Monoid' has come to ask for), and constructors that are
-- exported so that the test can look at them.
--
-- Well-typed expressions of it may be no JSON: see bench/test/SeedBuildTest.hs. Strings have no quotes, as the post
-- says: "these are clearly so simple as to be wrong".
module SeedBuild
  ( Build (..),
    Object,
    Array,
    Mixed,
    build,
    int,
    text,
    array,
    mixed,
    (<:>),
    object,
  )
where

import Data.String (IsString (..))
import Data.Text (Text)
import Data.Text.Lazy.Builder (Builder, singleton)
import Data.Text.Lazy.Builder qualified as Builder
import Data.Text.Lazy.Builder.Int qualified as Builder

data Build a = Build
  { _count :: !Int,
    run :: Builder
  }

data Object

data Array

data Mixed

instance Semigroup (Build a) where
  Build i a <> Build j b
    | ij > 1 = Build ij (a <> singleton ',' <> b)
    | otherwise = Build ij (a <> b)
    where
      ij = i + j

instance Monoid (Build a) where
  mempty = Build 0 mempty

instance IsString (Build a) where
  fromString = build . Builder.fromString . show

build :: Builder -> Build a
build = Build 1

int :: Integral a => a -> Build a
int = build . Builder.decimal

text :: Text -> Build Text
text = build . Builder.fromText

array :: Build a -> Build Array
array (Build 0 _) = build "[]"
array (Build _ vs) = build $ singleton '[' <> vs <> singleton ']'

mixed :: Build a -> Build Mixed
mixed (Build a b) = Build a b

infixr 7 <:>

-- | Encode a key-value pair.
(<:>) :: Build Text -> Build a -> Build Object
k <:> v = Build 1 (run k <> ":" <> run v)

object :: Build Object -> Build Object
object (Build 0 _) = build "{}"
object (Build _ kvs) = build $ singleton '{' <> kvs <> singleton '}'

-- | String literals as names and keys: how large they make a program.
module JsonLiteralTest
  ( tests,
  )
where

import Heddle.Testkit.Compile (sizePerLine)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase)

tests :: TestTree
tests =
  testGroup
    "Literal"
    [ testCase "a literal name costs bytes, not code" $ do
        names <- sizePerLiteral "Name" (\n -> "k" <> show n <> " :: Name\nk" <> show n <> " = " <> show (name n))
        keys <- sizePerLiteral "Fields" (\n -> (if n == 1 then "all :: Int -> Fields\nall n = mempty" else "") <> " <> " <> show (name n) <> " <:> int n")
        let found = show [("a key" :: String, names), ("a key and its value", keys)]
        assertBool found (names <= 250 && keys <= 500)
    ]
  where
    sizePerLiteral = sizePerLine ["heddle-json"] ["import Heddle.Json.Build (Fields, Name, int, (<:>))", "import Prelude hiding (all)"]
    name :: Int -> String
    name n = "literal number " <> show n
